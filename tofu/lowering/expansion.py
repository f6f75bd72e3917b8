"""Lowered graphs, in which several smaller operators replace some operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tofu.graph import Graph, Operator
from tofu.lowering.parts import Lowerings, Parts, find_lowering


def lower(graph: Graph, lowerings: Lowerings, is_lowered: Callable[[Operator], bool] = lambda operator: True) -> Graph:
    """Replace operators by smaller operators, by the rules in `lowerings`.

    An operator stays if `is_lowered` returns False.
    """
    if all(find_lowering(lowerings, operator, graph.tensors) is None for operator in graph.operators):
        return graph
    operators: list[Operator] = []
    tensors = list(graph.tensors)
    new_numbers: list[int] = []  # for each operator of `graph`, the number of its last part in the lowered graph
    for operator in graph.operators:
        lowering = find_lowering(lowerings, operator, graph.tensors)
        forward = None if operator.forward is None else new_numbers[operator.forward]
        renumbered = replace(operator, forward=forward)
        if lowering is None:
            operators.append(renumbered)
        elif is_lowered(operator):
            parts = Parts(renumbered, graph.tensors, len(operators), len(tensors))
            lowering.expand(parts)
            operators += parts.operators
            tensors += parts.tensors
        else:
            operators.append(lowering.as_whole(renumbered))
        new_numbers.append(len(operators) - 1)
    return replace(graph, tensors=tuple(tensors), operators=tuple(operators))
