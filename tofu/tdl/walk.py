"""Functions that visit all parts of a formula."""

from __future__ import annotations

from collections.abc import Iterator

from tofu.tdl.expression import (
    AnyOf,
    Call,
    Element,
    OpaqueElement,
    RandomElement,
    Reduction,
    TensorSlice,
    Unread,
    Value,
    WholeDimension,
)


def positions_inside(indices: tuple[object, ...]) -> tuple[Value, ...]:
    """Return the formulas inside data-dependent indices, such as `value` in `t[Any(value)]`."""
    positions = (index.position for index in indices if isinstance(index, (WholeDimension, AnyOf)))
    return tuple(position for position in positions if position is not None)


def children(value: Value) -> tuple[Value, ...]:
    """Return the operands of a formula, such as `a` and `b` of `a + b`. Formulas in indices are also operands."""
    if isinstance(value, (Call, RandomElement)):
        return value.arguments
    if isinstance(value, Reduction):
        return (value.body,)
    if isinstance(value, Element):
        return positions_inside(value.indices)
    if isinstance(value, Unread):
        return (value.element,)
    if isinstance(value, OpaqueElement):
        argument_values: list[Value] = []
        for argument in value.arguments:
            argument_values += positions_inside(argument.indices) if isinstance(argument, TensorSlice) else (argument,)
        return tuple(argument_values)
    return ()


def walk(value: Value) -> Iterator[Value]:
    """Yield a formula, its operands, their operands, and so on."""
    stack = [value]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def accesses(value: Value) -> Iterator[Element | TensorSlice]:
    """Yield each read of a tensor in a formula."""
    for node in walk(value):
        if isinstance(node, Element):
            yield node
        elif isinstance(node, OpaqueElement):
            yield from (argument for argument in node.arguments if isinstance(argument, TensorSlice))
