"""Count the arithmetic operations of an operator. From this number, a simulation predicts the kernel's time.

- Each function and arithmetic operator is one operation for each element that it computes. A reduction is one operation
  for each element that it reduces.
- A value that several elements use, such as a mean, is counted once.
- `where(position(v) == x, value, 0)` selects one element, and counts as one lookup.

A *contraction* is a sum of products in which each factor is used several times, such as a matrix product or a
convolution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from tofu.tdl import expression as tdl
from tofu.tdl.forms import Output
from tofu.tdl.tracing import Trace
from tofu.tdl.walk import accesses, children, walk

Variables = tuple[str, ...]


@dataclass(frozen=True)
class Operations:
    """Number of arithmetic operations in a formula.

    For the sum over k of a[i, k] * b[k, j], it is `per_point` = 2 for each (i, j, k). Then `variables` are (i, j, k),
    and `depth` is (k,). `reuse` has the variables that each factor lacks: (j,) for a, and (i,) for b.
    """

    per_point: int
    variables: Variables
    reuse: tuple[Variables, ...] = ()
    depth: Variables = ()

    def count(self, extents: Mapping[str, int]) -> int:
        """Return the number of operations if the variables have the lengths `extents`."""
        return self.per_point * _volume(self.variables, extents)

    def count_depth(self, extents: Mapping[str, int]) -> int:
        """Return the number of terms in each sum of products."""
        return _volume(self.depth, extents)

    def is_contraction(self, extents: Mapping[str, int]) -> bool:
        """Return True for a sum of products that uses each factor several times, as a matrix product does."""
        return bool(self.reuse) and all(_volume(variables, extents) > 1 for variables in self.reuse)

    def __str__(self) -> str:
        reuse_text = " and for each of ".join(map(" ".join, self.reuse))
        reuse_clause = f", used again for each of {reuse_text}" if reuse_text else ""
        return f"{self.per_point} for each of {' '.join(self.variables) or 'one point'}{reuse_clause}"


Arithmetic = tuple[tuple[Operations, ...], ...]  # by output


def _volume(variables: Variables, extents: Mapping[str, int]) -> int:
    return prod(extents[name] for name in variables)


def count_arithmetic(trace: Trace) -> Arithmetic:
    """Count the arithmetic operations for each output of an operator. Functions without a formula are not counted.

    >>> from tofu.tdl import Sum, describe
    >>> from tofu.tdl.tracing import trace
    >>> dot = describe(lambda a, b: lambda i, j: Sum(lambda k: a[i, k] * b[k, j]))
    >>> print(*count_arithmetic(trace(dot, {}, [(4, 6), (6, 8)], [2]))[0])
    2 for each of i j k, used again for each of j and for each of i
    """
    return tuple(_merge_equal(_count_output(output)) for output in trace.outputs)


def _count_output(output: Output) -> Iterator[Operations]:
    if output.value is None:
        return
    if output.groups is None:
        yield from _count_sum(output.value, output.variables, output.variables, "Sum")
    else:
        yield from _count_value(output.value, output.variables)


def _count_value(value: tdl.Value, scope: Variables) -> Iterator[Operations]:
    variables = _list_variables(value) | _list_positions(value)
    scope = _drop_selected_variables(value, tuple(name for name in scope if name in variables))
    if isinstance(value, tdl.Call):
        yield Operations(1, scope)
    if isinstance(value, tdl.Reduction):
        yield from _count_sum(value.body, (*scope, *value.variables), value.variables, value.reducer)
        return
    for operand in children(value):
        yield from _count_value(operand, scope)


def _count_sum(body: tdl.Value, scope: Variables, variables: Variables, reducer: str) -> Iterator[Operations]:
    scope = _drop_selected_variables(body, scope)
    reuse = _find_reuse(body, scope) if reducer == "Sum" else ()
    operations = list(_count_value(body, scope))
    if reuse:
        operations.append(Operations(-1, scope))
    yield Operations(2 if reuse else 1, scope, reuse, variables if reuse else ())
    yield from _merge_equal(operations)


def _find_reuse(value: tdl.Value, scope: Variables) -> tuple[Variables, ...]:
    for node in walk(value):
        if isinstance(node, tdl.Reduction):  # counted with its body
            break
        if isinstance(node, tdl.Call) and node.function == "multiply":
            variables_by_factor = [_list_variables(argument) for argument in node.arguments]
            reuse = tuple(tuple(name for name in scope if name not in variables) for variables in variables_by_factor)
            if all(variables_by_factor) and all(reuse):
                return reuse
    return ()


def _drop_selected_variables(value: tdl.Value, scope: Variables) -> Variables:
    if not (isinstance(value, tdl.Call) and value.function == "where" and _is_zero(value.arguments[2])):
        return scope
    selecting: set[str] = set()
    for node in walk(value.arguments[0]):
        if isinstance(node, tdl.Call) and node.function == "equal":
            sides = [_list_positions(side) for side in node.arguments]
            if not all(sides):
                selecting.update(*sides)
    return tuple(name for name in scope if name not in selecting)


def _is_zero(value: tdl.Value) -> bool:
    return isinstance(value, tdl.Constant) and value.number == 0


def _list_positions(value: tdl.Value) -> frozenset[str]:
    return frozenset().union(*(node.index.variables for node in walk(value) if isinstance(node, tdl.Position)))


def _list_variables(value: tdl.Value) -> frozenset[str]:
    indices = (index for access in accesses(value) for index in access.indices)
    return frozenset().union(*(index.variables for index in indices if isinstance(index, (tdl.Index, tdl.AnyOf))))


def _merge_equal(operations: Iterator[Operations] | list[Operations]) -> tuple[Operations, ...]:
    counts: dict[tuple[Variables, tuple[Variables, ...], Variables], int] = {}
    for operation in operations:
        key = operation.variables, operation.reuse, operation.depth
        counts[key] = counts.get(key, 0) + operation.per_point
    return tuple(Operations(count, *key) for key, count in counts.items() if count > 0)
