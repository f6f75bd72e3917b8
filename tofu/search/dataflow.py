"""The edges of a graph, and classes of equal operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tofu.graph import Graph, Operator, Phase, TensorKind

# Learned weights, and states that are kept between steps.
SHARED_KINDS = (TensorKind.PARAMETER, TensorKind.AUXILIARY)


@dataclass(frozen=True)
class Dataflow:
    """The edges of a graph in both directions, and classes of equal operators.

    Attributes
    ----------
    producers
        For each tensor, the operator that computes it, and the number of the output. (-1, 0) for an argument.
    readers
        For each tensor, the operators that read it, as pairs (operator, number of the input).
    kinds
        A number for each operator, equal for operators with equal operations, attributes, shapes, types and phases.
    signatures
        A number for each operator, equal for operators of one kind that read the same parameters.
    futures
        For each operator, a hash of the operators that follow it within three edges.
    forward
        For each operator of the forward pass, the operators that compute its inputs.
    followers
        For each operator in `forward`, the operators in `forward` that read its results.
    shared
        Parameters and auxiliary states (such as moving means).
    """

    graph: Graph
    producers: tuple[tuple[int, int], ...]
    readers: tuple[tuple[tuple[int, int], ...], ...]
    kinds: tuple[int, ...]
    signatures: tuple[int, ...]
    futures: tuple[int, ...]
    forward: Mapping[int, tuple[int, ...]]
    followers: Mapping[int, tuple[int, ...]]
    shared: frozenset[int]

    def for_layers(self) -> Dataflow:
        """Return a copy in which equal operators may read different parameters, as in repeated layers."""
        shared = set(self.shared)
        for operator in self.graph.operators:
            if operator.inputs and shared.issuperset(operator.inputs):
                shared.update(operator.outputs)
        return replace(self, signatures=self.kinds, shared=frozenset(shared))


def trace_dataflow(graph: Graph, kinds: Sequence[object] | None = None) -> Dataflow:
    """Return the edges of `graph`. Operators a and b are equal if `kinds[a] == kinds[b]`.

    By default, operators with the same attributes and shapes are equal.
    """
    producers = [(-1, 0)] * len(graph.tensors)
    readers: list[list[tuple[int, int]]] = [[] for _ in graph.tensors]
    for position, operator in enumerate(graph.operators):
        for index, tensor in enumerate(operator.outputs):
            producers[tensor] = position, index
        for slot, tensor in enumerate(operator.inputs):
            readers[tensor].append((position, slot))
    if kinds is None:
        kinds = [_describe_kind(graph, operator) for operator in graph.operators]
    numbers = _rank(kinds)
    seen: dict[tuple[object, ...], int] = {}
    signatures = []
    for operator, kind in zip(graph.operators, numbers, strict=True):
        shared = tuple((s, t) for s, t in enumerate(operator.inputs) if graph.tensors[t].kind in SHARED_KINDS)
        signatures.append(seen.setdefault((kind, shared), len(seen)))
    return Dataflow(
        graph=graph,
        producers=tuple(producers),
        readers=tuple(map(tuple, readers)),
        kinds=tuple(numbers),
        signatures=tuple(signatures),
        futures=_digest_futures(graph, numbers, readers),
        shared=frozenset(t for t, tensor in enumerate(graph.tensors) if tensor.kind in SHARED_KINDS),
        **_link_forward(graph, producers, readers),
    )


def _link_forward(
    graph: Graph, producers: list[tuple[int, int]], readers: list[list[tuple[int, int]]]
) -> dict[str, dict[int, tuple[int, ...]]]:
    is_linked = any(operator.forward is not None for operator in graph.operators)
    chosen = {o for o, operator in enumerate(graph.operators) if operator.phase is Phase.FORWARD or not is_linked}
    forward, followers = {}, {}
    for position in sorted(chosen):
        operator = graph.operators[position]
        sources = dict.fromkeys(producers[t][0] for t in operator.inputs)
        forward[position] = tuple(source for source in sources if source >= 0)
        users = dict.fromkeys(user for t in operator.outputs for user, _ in readers[t])
        followers[position] = tuple(user for user in users if user in chosen)
    return {"forward": forward, "followers": followers}


def _describe_kind(graph: Graph, operator: Operator) -> tuple[object, ...]:
    attributes = sorted(item for item in operator.attributes.items() if item[0] not in operator.annotations)
    tensors = [graph.tensors[t] for t in (*operator.inputs, *operator.outputs)]
    return (
        operator.op,
        tuple(attributes),
        tuple((t.shape, t.dtype, t.kind in SHARED_KINDS) for t in tensors),
        (int(operator.phase), operator.stateful, operator.mutates, len(operator.inputs)),
    )


def _rank(kinds: Sequence[object]) -> list[int]:
    rank = {kind: number for number, kind in enumerate(sorted(set(kinds), key=repr))}
    return [rank[kind] for kind in kinds]


def _digest_futures(graph: Graph, kinds: list[int], readers: list[list[tuple[int, int]]]) -> tuple[int, ...]:
    digests = list(kinds)
    for _ in range(3):
        digests = [
            hash(
                (
                    kinds[position],
                    tuple(tuple(sorted((digests[o], s) for o, s in readers[t])) for t in operator.outputs),
                )
            )
            for position, operator in enumerate(graph.operators)
        ]
    return tuple(digests)
