"""Functions that visit all parts of a formula."""

from __future__ import annotations

from collections.abc import Iterator

from tofu.tdl import expression as tdl


def positions_inside(indices: tuple[object, ...]) -> tuple[tdl.Value, ...]:
    """Return the formulas inside `indices`. For example, `value` is the formula inside the index of `t[Any(value)]`."""
    positions = (index.position for index in indices if isinstance(index, (tdl.WholeDimension, tdl.AnyOf)))
    return tuple(position for position in positions if position is not None)


def children(value: tdl.Value) -> tuple[tdl.Value, ...]:
    """Return the operands of a formula, such as `a` and `b` of `a + b`. Formulas in indices are also operands."""
    if isinstance(value, (tdl.Call, tdl.RandomElement)):
        return value.arguments
    if isinstance(value, tdl.Reduction):
        return (value.body,)
    if isinstance(value, tdl.Element):
        return positions_inside(value.indices)
    if isinstance(value, tdl.Unread):
        return (value.element,)
    if isinstance(value, tdl.OpaqueElement):
        argument_values: list[tdl.Value] = []
        for argument in value.arguments:
            argument_values += (
                positions_inside(argument.indices) if isinstance(argument, tdl.TensorSlice) else (argument,)
            )
        return tuple(argument_values)
    return ()


def walk(value: tdl.Value) -> Iterator[tdl.Value]:
    """Yield a formula, its operands, their operands, and so on."""
    stack = [value]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def accesses(value: tdl.Value) -> Iterator[tdl.Element | tdl.TensorSlice]:
    """Yield each read of a tensor in a formula."""
    for node in walk(value):
        if isinstance(node, tdl.Element):
            yield node
        elif isinstance(node, tdl.OpaqueElement):
            yield from (argument for argument in node.arguments if isinstance(argument, tdl.TensorSlice))
