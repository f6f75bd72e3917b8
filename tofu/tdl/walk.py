"""Traversal of the tree of a value."""

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
    """Return the values inside data-dependent indices, `Any(value)`."""
    inside = (index.position for index in indices if isinstance(index, (WholeDimension, AnyOf)))
    return tuple(position for position in inside if position is not None)


def children(value: Value) -> tuple[Value, ...]:
    """Return the values directly below `value`, and those inside its data-dependent indices."""
    if isinstance(value, (Call, RandomElement)):
        return value.arguments
    if isinstance(value, Reduction):
        return (value.body,)
    if isinstance(value, Element):
        return positions_inside(value.indices)
    if isinstance(value, Unread):
        return (value.element,)
    if isinstance(value, OpaqueElement):
        inside: list[Value] = []
        for argument in value.arguments:
            inside += positions_inside(argument.indices) if isinstance(argument, TensorSlice) else (argument,)
        return tuple(inside)
    return ()


def walk(value: Value) -> Iterator[Value]:
    """Yield `value` and everything below it, parents first."""
    stack = [value]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(children(top)))


def accesses(value: Value) -> Iterator[Element | TensorSlice]:
    """Yield each read of a tensor below `value`."""
    for node in walk(value):
        if isinstance(node, Element):
            yield node
        elif isinstance(node, OpaqueElement):
            yield from (argument for argument in node.arguments if isinstance(argument, TensorSlice))
