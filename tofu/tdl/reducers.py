"""Reductions (Sum, Max, Min, Prod), opaque functions and random numbers for descriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tofu.tdl import expression as tdl
from tofu.tdl.lambdas import call_with_variables, list_variables, read_extents, read_parameters

Extents = Mapping[str, "tdl.Index | int"]


def _reduce(
    reducer: str, body: Callable[..., tdl.Operand], ndim: int | None, extents: Extents | None, names: str | None
) -> tdl.Value:
    parameters = read_parameters(body)
    variables = list_variables(parameters, reducer, "ndim", ndim, names)
    declared_extents = read_extents(extents, variables)
    value = tdl.as_value(call_with_variables(body, variables))
    return tdl.Reduction(reducer, variables, value, declared_extents, parameters.place)


def Sum(  # noqa: N802
    body: Callable[..., tdl.Operand],
    *,
    ndim: int | None = None,
    extents: Extents | None = None,
    names: str | None = None,
) -> tdl.Value:
    """Return the sum of `body` over all values of its index variables.

    If the lambda has a parameter `*s`, pass the number of all variables (`ndim=3`) or their names (`names="b y0 y1"`).
    With `names=""`, there are no variables, and the sum is `body()`.
    """
    return _reduce("Sum", body, ndim, extents, names)


def Max(  # noqa: N802
    body: Callable[..., tdl.Operand],
    *,
    ndim: int | None = None,
    extents: Extents | None = None,
    names: str | None = None,
) -> tdl.Value:
    """Return the largest value of `body` over all values of its index variables."""
    return _reduce("Max", body, ndim, extents, names)


def Min(  # noqa: N802
    body: Callable[..., tdl.Operand],
    *,
    ndim: int | None = None,
    extents: Extents | None = None,
    names: str | None = None,
) -> tdl.Value:
    """Return the smallest value of `body` over all values of its index variables."""
    return _reduce("Min", body, ndim, extents, names)


def Prod(  # noqa: N802
    body: Callable[..., tdl.Operand],
    *,
    ndim: int | None = None,
    extents: Extents | None = None,
    names: str | None = None,
) -> tdl.Value:
    """Return the product of `body` over all values of its index variables."""
    return _reduce("Prod", body, ndim, extents, names)


class OpaqueResult:
    """The result of an opaque function: `result[i, j]` is an element."""

    def __init__(self, function: Opaque, arguments: tuple[tdl.Value | tdl.TensorSlice, ...]) -> None:
        self._function = function
        self._arguments = arguments

    def __getitem__(self, key: object) -> tdl.Value:
        keys = key if isinstance(key, tuple) else (key,)
        indices = tuple(tdl.as_index(k) for k in keys)
        return tdl.OpaqueElement(self._function.function, self._function.name, self._arguments, indices)


class Opaque:
    """A computation that has no formula in a description (section 4.1).

    For f = Opaque() and f(matrix[b, :, :])[i, j], the operator can be split along b, but not along i and j. The
    interpreter calls `function` with arrays and numbers.
    """

    def __init__(self, function: Callable[..., object] | None = None, name: str = "opaque") -> None:
        self.function = function
        self.name = name

    def __call__(self, *arguments: tdl.Operand | tdl.TensorSlice) -> OpaqueResult:
        """Return a result that can be indexed. Arguments are slices `t[b, :, :]` or numbers."""
        return OpaqueResult(self, tuple(a if isinstance(a, tdl.TensorSlice) else tdl.as_value(a) for a in arguments))


class Random:
    """A source of random numbers: `Random()(probability[i])` is a random number for each output element."""

    def __call__(self, *arguments: tdl.Operand) -> tdl.Value:
        """Return a random number whose distribution depends on `arguments`."""
        return tdl.RandomElement(tuple(tdl.as_value(argument) for argument in arguments))
