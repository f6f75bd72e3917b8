"""Let concatenations of slices, and similar operators, read the sliced tensors directly.

A slice of one row cannot be split by rows, so its elements would be transferred twice. Instead, a concatenation of
slices becomes one operator, `_tofu_join`:

    concat(x[7:8], x[0:7]) -> y[i] = x[i + 7] + x[i - 1], where elements outside x are zero

This operator needs no kernel, because workers assemble `y` from the shards of `x`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from tofu.graph import Graph, Operator, Phase
from tofu.mxnet.lowerings.conventions import find_access

Shape = tuple[int, ...]
Sources = tuple[tuple[int, Shape], ...]
"""Tensors from which another tensor is assembled, each with the distances by which its elements are shifted."""
JOIN = "_tofu_join"
ZEROS = ("_zeros", "_npi_zeros", "zeros_like")


def read_through_slices(graph: Graph) -> Graph:
    """Replace concatenations of slices by an operator that reads the sliced tensors directly.

    The slices stay in the graph.
    """
    accesses = [find_access(graph, operator) for operator in graph.operators]
    with_state = {operator.forward for operator in graph.operators if operator.stateful}
    read_counts = Counter(graph.results)
    for operator, access in zip(graph.operators, accesses, strict=True):
        read_counts.update(
            tensor for n, tensor in enumerate(operator.inputs) if access is None or access.inputs[n].is_read
        )
    sources: dict[tuple[int, Phase], Sources] = {}
    operators = list(graph.operators)
    for number, (operator, access) in enumerate(zip(graph.operators, accesses, strict=True)):
        if access is None or operator.stateful or operator.mutates or number in with_state:
            continue
        if operator.op in ZEROS:
            sources[operator.outputs[0], operator.phase] = ()
        for tensor, moves in zip(operator.outputs, access.moves, strict=False):
            own = tuple((operator.inputs[move.input], move.distances) for move in moves)
            if _overlap(graph, own, tensor):  # a sum
                continue
            shown = _list_sources(graph, own, tensor, operator.phase, sources, read_counts)
            join = replace(operator, op=JOIN, attributes={"distances": str(tuple(d for _, d in shown))})
            join = replace(join, inputs=tuple(source for source, _ in shown), ignored=(), annotations=frozenset())
            is_join = len(operator.outputs) == 1 and shown not in (own, ()) and _is_fetched(graph, join, access.axes)
            operators[number] = join if is_join else operator
            sources[tensor, operator.phase] = shown if is_join else own
    return replace(graph, operators=tuple(operators))


def _list_sources(
    graph: Graph,
    own: Sources,
    target: int,
    phase: Phase,
    sources: dict[tuple[int, Phase], Sources],
    read_counts: Counter[int],
) -> Sources:
    found: list[tuple[int, Shape]] = []
    for tensor, distances in own:
        is_private = read_counts[tensor] == 1 and (tensor, phase) in sources
        behind = _compose(graph, tensor, distances, target, sources[tensor, phase]) if is_private else None
        found += [(tensor, distances)] if behind is None else behind
    return tuple(found)


def _compose(
    graph: Graph, between: int, distances: Shape, target: int, sources: Sources
) -> list[tuple[int, Shape]] | None:
    result, shape = graph.tensors[target], graph.tensors[between].shape
    found = []
    for source, inner_distances in sources:
        tensor = graph.tensors[source]
        moved = tuple(map(sum, zip(distances, inner_distances, strict=True)))
        shown = _clip(_place(tensor.shape, moved), result.shape)
        hidden = _clip(_place(shape, distances), result.shape)
        if any(begin >= end for begin, end in shown):
            continue
        is_hidden = any(a < c or b > d for (a, b), (c, d) in zip(shown, hidden, strict=True))
        if is_hidden or tensor.dtype != result.dtype or source in graph.written_in_place:
            return None
        found.append((source, moved))
    return found


def _overlap(graph: Graph, sources: Sources, target: int) -> bool:
    shape = graph.tensors[target].shape
    boxes = [_clip(_place(graph.tensors[source].shape, distances), shape) for source, distances in sources]
    return any(
        all(max(a, c) < min(b, d) for (a, b), (c, d) in zip(box, other, strict=True))
        for box, other in combinations(boxes, 2)
    )


def _place(shape: Shape, distances: Shape) -> list[tuple[int, int]]:
    return [(d, d + extent) for d, extent in zip(distances, shape, strict=True)]


def _clip(box: Sequence[tuple[int, int]], shape: Shape) -> list[tuple[int, int]]:
    return [(max(begin, 0), min(end, extent)) for (begin, end), extent in zip(box, shape, strict=True)]


def _is_fetched(graph: Graph, operator: Operator, axes: Sequence[str]) -> bool:
    access = find_access(graph, operator)
    return access is not None and access.is_always_fetched and set(axes) <= set(access.axes)
