"""Counts of the arithmetic operations of an operator, from which a simulation predicts the time of its kernel.

- Each function and arithmetic operator counts as one operation for each element that it computes. A reduction counts one
  more for each element that it reduces.
- A value that does not depend on a variable, such as a mean that each element subtracts, counts once for all values of
  the variable.
- If a description selects elements by `where(position(v) == x, value, 0)`, kernels look them up, so only one value of v
  counts.

A *contraction* is a sum of products in which each factor is used several times, as in a matrix product or a
convolution. Kernels keep the factors near the arithmetic units and run at the units' speed. All other kernels wait for
memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from tofu.tdl.expression import (
    AnyOf,
    Call,
    Constant,
    Element,
    Index,
    OpaqueElement,
    Position,
    Reduction,
    TensorSlice,
    Value,
)
from tofu.tdl.forms import Output
from tofu.tdl.tracing import Trace
from tofu.tdl.walk import children, walk

Variables = tuple[str, ...]


@dataclass(frozen=True)
class Operations:
    """Operations that are repeated for all values of `variables`, `per_point` of them each time.

    For a sum of products, `absent` lists the variables that each factor does not depend on, and `depth` the variables
    that are summed over.
    """

    per_point: int
    variables: Variables
    absent: tuple[Variables, ...] = ()
    depth: Variables = ()

    def count(self, extents: Mapping[str, int]) -> int:
        """Return the number of operations for variables of these extents."""
        return self.per_point * _volume(self.variables, extents)

    def count_depth(self, extents: Mapping[str, int]) -> int:
        """Return the number of terms in each sum of products."""
        return _volume(self.depth, extents)

    def is_contraction(self, extents: Mapping[str, int]) -> bool:
        """Return True for a sum of products in which each factor is used more than once."""
        return bool(self.absent) and all(_volume(lacking, extents) > 1 for lacking in self.absent)

    def __str__(self) -> str:
        reused = " and for each of ".join(map(" ".join, self.absent))
        again = f", used again for each of {reused}" if reused else ""
        return f"{self.per_point} for each of {' '.join(self.variables) or 'one point'}{again}"


Arithmetic = tuple[tuple[Operations, ...], ...]  # by output


def _volume(variables: Variables, extents: Mapping[str, int]) -> int:
    return prod(extents[name] for name in variables)


def count_arithmetic(trace: Trace) -> Arithmetic:
    """Count the operations of each output of a traced description. The work of opaque functions is not counted.

    >>> from tofu.tdl import Sum, describe
    >>> from tofu.tdl.tracing import trace
    >>> dot = describe(lambda a, b: lambda i, j: Sum(lambda k: a[i, k] * b[k, j]))
    >>> print(*count_arithmetic(trace(dot, {}, [(4, 6), (6, 8)], [2]))[0])
    2 for each of i j k, used again for each of j and for each of i
    """
    return tuple(_join(_count_output(output)) for output in trace.outputs)


def _count_output(output: Output) -> Iterator[Operations]:
    if output.value is None:
        return
    if output.groups is None:
        yield from _count_sum(output.value, output.variables, output.variables, "Sum")
    else:
        yield from _count_value(output.value, output.variables)


def _count_value(value: Value, scope: Variables) -> Iterator[Operations]:
    """Yield the operations of a value, for the variables of `scope` that it depends on."""
    known = _list_variables(value) | _list_positions(value)
    scope = _without_picked(value, tuple(name for name in scope if name in known))
    if isinstance(value, Call):
        yield Operations(1, scope)
    if isinstance(value, Reduction):
        yield from _count_sum(value.body, (*scope, *value.variables), value.variables, value.reducer)
        return
    for below in children(value):
        yield from _count_value(below, scope)


def _count_sum(body: Value, scope: Variables, variables: Variables, reducer: str) -> Iterator[Operations]:
    """Yield the operations of a reduction over `variables`, which are in `scope`. A product that it sums is included."""
    scope = _without_picked(body, scope)
    absent = _find_absent(body, scope) if reducer == "Sum" else ()
    below = list(_count_value(body, scope))
    if absent:
        below.append(Operations(-1, scope))
    yield Operations(2 if absent else 1, scope, absent, variables if absent else ())
    yield from _join(below)


def _find_absent(value: Value, scope: Variables) -> tuple[Variables, ...]:
    """Return, for each factor of a product in `value`, the variables of `scope` that it lacks."""
    for node in walk(value):
        if isinstance(node, Reduction):  # counted with its body
            break
        if isinstance(node, Call) and node.function == "multiply":
            factors = [_list_variables(argument) for argument in node.arguments]
            absent = tuple(tuple(name for name in scope if name not in factor) for factor in factors)
            if all(factors) and all(absent):
                return absent
    return ()


def _without_picked(value: Value, scope: Variables) -> Variables:
    """Return `scope` without variables that a `where` in `value` compares with a number to select one element."""
    if not (isinstance(value, Call) and value.function == "where" and _is_zero(value.arguments[2])):
        return scope
    picked: set[str] = set()
    for node in walk(value.arguments[0]):
        if isinstance(node, Call) and node.function == "equal":
            sides = [_list_positions(side) for side in node.arguments]
            if not all(sides):
                picked.update(*sides)
    return tuple(name for name in scope if name not in picked)


def _is_zero(value: Value) -> bool:
    return isinstance(value, Constant) and value.number == 0


def _list_positions(value: Value) -> frozenset[str]:
    return frozenset().union(*(node.index.variables for node in walk(value) if isinstance(node, Position)))


def _list_variables(value: Value) -> frozenset[str]:
    found: set[str] = set()
    for node in walk(value):
        read: list[Element | TensorSlice] = [node] if isinstance(node, Element) else []
        if isinstance(node, OpaqueElement):
            read += [argument for argument in node.arguments if isinstance(argument, TensorSlice)]
        for access in read:
            found.update(*(index.variables for index in access.indices if isinstance(index, (Index, AnyOf))))
    return frozenset(found)


def _join(operations: Iterator[Operations] | list[Operations]) -> tuple[Operations, ...]:
    counts: dict[tuple[Variables, tuple[Variables, ...], Variables], int] = {}
    for counted in operations:
        key = counted.variables, counted.absent, counted.depth
        counts[key] = counts.get(key, 0) + counted.per_point
    return tuple(Operations(count, *key) for key, count in counts.items() if count > 0)
