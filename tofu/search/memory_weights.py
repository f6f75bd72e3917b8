"""Weights by which a search under a memory limit counts the bytes of each tensor.

A worker needs most memory when the backward pass begins. Tensors that exist at this time have weight 1: variables,
results, and activations for the backward pass. The weight of other tensors is the share of the step in which they
exist.
"""

from __future__ import annotations

from tofu.graph import Graph, Phase, TensorKind


def weigh_tensors(graph: Graph) -> list[float]:
    """Return the weight of each tensor's bytes, from 0 to 1.

    The weight of a tensor in a loop is divided by the number of iterations.
    """
    count = len(graph.operators)
    turn = next((o for o, operator in enumerate(graph.operators) if operator.phase is not Phase.FORWARD), count)
    begin, end = [0] * len(graph.tensors), [0] * len(graph.tensors)
    for position, operator in enumerate(graph.operators):
        for tensor in operator.outputs:
            begin[tensor] = end[tensor] = position
        for tensor in operator.inputs:
            end[tensor] = position
    weights = []
    for position, info in enumerate(graph.tensors):
        is_there = info.kind is not TensorKind.INTERMEDIATE or position in graph.results
        if is_there or begin[position] < turn <= end[position]:
            weights.append(1.0 / info.times)
        else:
            weights.append((end[position] - begin[position] + 1) / max(count, 1) / info.times)
    for carry in graph.carries:  # a carry and its last value share one buffer
        weights[carry.tensor] = weights[carry.last] = weights[carry.tensor] / 2
    return weights
