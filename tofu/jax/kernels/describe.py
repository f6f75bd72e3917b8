"""`tofu.jax.describe`: user functions that become one operator, whatever kernels they call.

While Tofu traces a step, a call of a described function is one equation. Workers call the function on their shards.
Outside of Tofu, nothing changes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, update_wrapper
from types import MethodType
from typing import Any

import jax
import numpy as np

from tdl_ops.jax import DESCRIPTIONS
from tofu.errors import DescriptionError
from tofu.jax.kernels.call import KernelCall, bind_differentiable, register
from tofu.jax.kernels.rule import SYNTAX, Shape, SplitRule, parse_rule
from tofu.jax.kernels.tracing import expect_described, is_tracing, within_kernel
from tofu.jax.verify.described import verify_described
from tofu.tdl import Description

PLAIN = (bool, int, float, str)
_formulas: dict[str, tuple[Any, ...]] = {}
"""Code, closure, defaults and options of each registered formula, by name."""


def describe(
    description: str | Callable[..., Any], *, name: str = "", concrete: bool = False
) -> Callable[[Any], Described]:
    """Return a decorator that describes how a function of arrays can be split.

    Use it for functions that Tofu cannot trace: those that call `pallas_call`, `jax.ffi.ffi_call`, or a primitive of
    your own. The function becomes one operator of the plan. Each worker calls it with its shards, so it must take sizes
    from its arguments. Outside of Tofu, nothing changes.

    A description is a rule, with one group for each array that the function takes and returns:

        @tofu.jax.describe("b h _ _, b h _ _, b h _ _ -> b h _ _")
        def attention(q, k, v): ...

    - A name is an axis that can be split: the shard of the result at b and h follows from the shards of q, k and v
      there.
    - `_` is a dimension that every worker needs completely.
    - `(h _)` is a dimension with several elements for each position of h, such as query heads that share a key head.
    - A result without an axis is the sum over it: "i k, k j -> i j" is a matrix product.

    A description may also be a formula in TDL (docs/tdl.md), a function of the arrays. Its keyword-only parameters are
    arguments of that name:

        @tofu.jax.describe(lambda q, k, v: lambda b, h, i, d: part(q[b, h, i, :], k[b, h, :, :], v[b, h, :, :])[d])

    The gradient of a described function is split along the same axes, and computes the function again. To avoid that
    for a function with `jax.custom_vjp`, describe its forward and backward functions instead. `jax.vmap` adds an axis.

    A wrong description leads to wrong results. `attention.verify(q, k, v)` compares the function with its shards.

    Parameters
    ----------
    description
        The rule, or the formula.
    name
        The operator's name in plans and hints; by default the function's.
    concrete
        If True, the formula reads extents as numbers (`tofu.jax.op`).
    """
    if not (isinstance(description, str) or callable(description)):
        raise DescriptionError(f"A description is a rule or a formula in TDL, and not {description!r}. {SYNTAX}")

    def decorate(function: Any) -> Described:
        if not callable(function):
            raise DescriptionError(f"describe(...) is a decorator of functions, and was given {function!r}.")
        return Described(function, description, name, concrete)

    return decorate


class Described:
    """A function with a description. It is called like the function."""

    def __init__(self, function: Any, description: str | Callable[..., Any], name: str, concrete: bool) -> None:
        expect_described()
        update_wrapper(self, function)
        self.function = function
        self.description = description
        self.operator_name = name or getattr(function, "__name__", type(function).__name__).strip("<>")
        self.concrete = concrete

    @property
    def shown_description(self) -> str:
        """The rule, or the file and line of the formula."""
        code = getattr(self.description, "__code__", None)
        if code is None:
            return repr(self.description)
        return f"the formula at {code.co_filename}:{code.co_firstlineno}"

    def __repr__(self) -> str:
        return f"<{self.operator_name}, described by {self.shown_description}>"

    def __getattr__(self, name: str) -> Any:
        if name in ("function", "__wrapped__"):
            raise AttributeError(name)
        return getattr(self.function, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function. While a step is traced, the call becomes one operator."""
        if not is_tracing():
            return self.function(*args, **kwargs)
        call, arrays, restore = self.make_call(args, kwargs)
        return restore(bind_differentiable(call, arrays))

    def verify(self, *args: Any, **kwargs: Any) -> Any:
        """Compare the function at these arguments with its shards, for each axis of the description.

        Return a report. Raise DescriptionError if anything disagrees.
        """
        return verify_described(self, args, kwargs)

    def make_call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[KernelCall, list[Any], Callable[[Any], Any]]:
        """Return the kernel of a call, its arrays, and a function that builds the call's result from the kernel's."""
        leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
        is_array = [isinstance(leaf, (jax.Array, np.ndarray, np.generic)) for leaf in leaves]
        trees: list[Any] = []

        def run(*arrays: Any) -> list[Any]:
            given = iter(arrays)
            filled = [next(given) if is_one else leaf for leaf, is_one in zip(leaves, is_array, strict=True)]
            own_args, own_kwargs = jax.tree.unflatten(tree, filled)
            with within_kernel():
                made = self.function(*own_args, **own_kwargs)
            trees[:] = [jax.tree.structure(made)]
            return list(jax.tree.leaves(made))

        arrays = [jax.numpy.asarray(leaf) for leaf, is_one in zip(leaves, is_array, strict=True) if is_one]
        call = KernelCall(self.operator_name, run)
        if not isinstance(self.description, str):
            description = self._register_formula()
            call = replace(call, name=description.name, attributes=self._find_attributes(description, args, kwargs))
        shapes = [tuple(x.shape) for x in call.find_shapes(arrays)]
        if isinstance(self.description, str):
            rule = self._read_rule([x.shape for x in arrays], shapes)
            call = replace(call, name=register(self.operator_name), rule=rule)
        return call, arrays, partial(jax.tree.unflatten, trees[-1])

    def _read_rule(self, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> SplitRule:
        assert isinstance(self.description, str)
        try:
            return parse_rule(self.description, inputs, outputs)
        except DescriptionError as error:
            raise DescriptionError(f"The description of {self.operator_name} is wrong: {error}") from error

    def _find_attributes(
        self, description: Description, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        given = {name: value for name, value in bound.arguments.items() if name in description.defaults}
        strange = [name for name, value in given.items() if not isinstance(value, PLAIN)]
        if strange:
            raise DescriptionError(
                f"{strange[0]} of {self.operator_name} is {given[strange[0]]!r}; a description takes numbers, strings and booleans."
            )
        return given

    def _register_formula(self) -> Description:
        formula: Any = self.description
        code = getattr(formula, "__code__", formula)
        cells = tuple(id(cell.cell_contents) for cell in getattr(formula, "__closure__", None) or ())
        own = code, cells, getattr(formula, "__defaults__", None), self.concrete
        names = (self.operator_name, *(f"{self.operator_name}_{n}" for n in range(1, len(DESCRIPTIONS) + 2)))
        name = next(name for name in names if _formulas.get(name) == own or name not in DESCRIPTIONS)
        if name not in DESCRIPTIONS:
            DESCRIPTIONS.op(name, concrete=self.concrete)(formula)
            _formulas[name] = own
        return DESCRIPTIONS[name]
