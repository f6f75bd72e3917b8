"""Lowered graphs, in which operators are replaced by their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tofu.graph import Graph, Operator, Tensor
from tofu.lowering.parts import Lowerings, Parts, find_lowering


def lower(graph: Graph, lowerings: Lowerings, is_lowered: Callable[[Operator], bool] = lambda operator: True) -> Graph:
    """Replace operators that have a lowering by their parts, if `is_lowered` selects them.

    Tensors keep their numbers, and new tensors between parts follow. Operators that stay whole list all inputs that their
    kernels update.
    """
    if all(find_lowering(lowerings, operator, graph.tensors) is None for operator in graph.operators):
        return graph
    operators: list[Operator] = []
    tensors = list(graph.tensors)
    position_of: dict[int, int] = {}
    for number, operator in enumerate(graph.operators):
        lowering = find_lowering(lowerings, operator, graph.tensors)
        forward = None if operator.forward is None else position_of[operator.forward]
        moved = replace(operator, forward=forward)
        if lowering is None:
            operators.append(moved)
        elif is_lowered(operator):
            parts = Parts(moved, graph.tensors, len(operators), len(tensors))
            lowering.expand(parts)
            operators += parts.operators
            tensors += parts.tensors
        else:
            operators.append(lowering.as_whole(moved))
        position_of[number] = len(operators) - 1
    return replace(graph, tensors=tuple(tensors), operators=tuple(operators))


def keep_whole(lowerings: Lowerings, operator: Operator, tensors: Sequence[Tensor]) -> Operator:
    """Return the form that the operator has in a lowered graph if it is not replaced."""
    lowering = find_lowering(lowerings, operator, tensors)
    return operator if lowering is None else lowering.as_whole(operator)
