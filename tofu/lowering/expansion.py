"""Lowered graphs: the semantic graph with operators replaced by their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tofu.graph import Graph, Operator, Tensor
from tofu.lowering.registry import Parts, lookup_lowering


def lower(graph: Graph, is_lowered: Callable[[Operator], bool] = lambda operator: True) -> Graph:
    """The graph with the operators that have a lowering in parts, as far as `is_lowered` says so.

    Tensors keep their positions; those between parts come after them. Operators that stay whole say of every input that their kernel
    changes it.
    """
    if all(lookup_lowering(operator, graph.tensors) is None for operator in graph.operators):
        return graph
    operators: list[Operator] = []
    tensors = list(graph.tensors)
    position_of: dict[int, int] = {}
    for number, operator in enumerate(graph.operators):
        lowering = lookup_lowering(operator, graph.tensors)
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
            operators.append(state_writes(moved, graph.tensors))
        position_of[number] = len(operators) - 1
    return replace(graph, tensors=tuple(tensors), operators=tuple(operators))


def state_writes(operator: Operator, tensors: Sequence[Tensor]) -> Operator:
    """The operator with all inputs that its stock kernel changes, also those that MXNet does not list."""
    lowering = lookup_lowering(operator, tensors)
    if lowering is None:
        return operator
    mutates = {*operator.mutates, *lowering.writes(operator.attributes)}
    return replace(operator, mutates=tuple(sorted(mutates)), asked=lowering.asked(operator.attributes))
