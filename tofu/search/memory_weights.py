"""How much of a worker's memory a tensor takes over a training step: what a byte that is held costs a search that pays for memory.

The most memory is in use when the backward pass begins: variables, and the activations that it will read. Tensors that are there
then count fully, and so do gradients that are results; the others by the share of the step in which they live.
"""

from __future__ import annotations

from tofu.graph import Graph, Phase, TensorKind


def weigh_tensors(graph: Graph) -> list[float]:
    """By tensor: the part of its bytes that counts, between 0 and 1; of one that gets new values several times, of those that move."""
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
    for carry in graph.carries:  # what is carried and what it is at the end are one buffer
        weights[carry.tensor] = weights[carry.last] = weights[carry.tensor] / 2
    return weights
