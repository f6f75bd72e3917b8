"""Repeated layers, which are planned once: blocks of equal operators with separate parameters, as in a Transformer.

A first search splits all layers alike. A second search starts from this plan. It splits every second layer alike,
because chains of products may need two splits in turn. Small graphs are searched without this restriction.

Corresponding operators of repeated layers are found like time steps (`tofu.search.time_steps`), but parameters are
ignored. These operators, and the tensors that they read and write, are the *seeds*. All other operators and tensors are
then compared by colour refinement. Two have the same colour if they are of the same kind, and their neighbours have the
same colours. For example, an optimizer's states then belong to the layer of their gradient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import gcd, prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tofu.analysis import OperatorAccess
from tofu.graph import Graph, Operator
from tofu.search.dataflow import SHARED_KINDS, Dataflow, trace_dataflow
from tofu.search.recurrence import NO_PARTS, EqualParts, join_families
from tofu.search.time_steps import find_time_steps

LEAST_OPERATORS = 2000
"""In graphs with fewer operators, each layer is planned separately."""
LEAST_LAYERS = 6
"""If there are fewer equal layers, each layer is planned separately."""
PERIOD = 2
"""Layers n and n + PERIOD get the same split."""

Colours: TypeAlias = "npt.NDArray[np.uint64]"
Seed: TypeAlias = tuple[Any, ...]
"""A key that corresponding nodes share. For an operator: the recurrence, an operator of the reference step, the layer."""


def find_repeated_layers(graph: Graph, accesses: Sequence[OperatorAccess], period: int = PERIOD) -> EqualParts:
    """Return the operators and tensors that repeat in every layer, or in every second layer for `period=2`.

    The result is empty for fewer than `LEAST_OPERATORS` operators or `LEAST_LAYERS` equal layers.

    >>> find_repeated_layers(Graph((), (), ()), ())
    EqualParts(operators=(), tensors=())
    """
    if len(graph.operators) < LEAST_OPERATORS:
        return NO_PARTS
    kinds = [_describe_kind(graph, *pair) for pair in zip(graph.operators, accesses, strict=True)]
    dataflow = trace_dataflow(graph, kinds).for_layers()
    seeds = _find_seeds(dataflow, period)
    if not seeds:
        return NO_PARTS
    families: dict[int, list[int]] = defaultdict(list)
    elementwise = frozenset(o for o, access in enumerate(accesses) if access.elementwise)
    for node, colour in enumerate(_refine_colours(dataflow, seeds, elementwise).tolist()):
        families[colour].append(node)
    first_tensor = len(graph.operators)
    alike = [family for family in families.values() if len(family) > 1]
    return EqualParts(
        tuple(tuple(family) for family in alike if family[0] < first_tensor),
        tuple(tuple(node - first_tensor for node in family) for family in alike if family[0] >= first_tensor),
    )


def _describe_kind(graph: Graph, operator: Operator, access: OperatorAccess) -> tuple[object, ...]:
    tensors = [graph.tensors[t] for t in (*operator.inputs, *operator.outputs)]
    rows = [part.rows for part in access.inputs] + [part.rows for part in access.outputs]
    regions = tuple(tuple((row.terms, row.upper - row.lower) for row in part) for part in rows)
    types = tuple((tensor.shape, tensor.dtype, tensor.kind in SHARED_KINDS) for tensor in tensors)
    return operator.op, operator.phase.value, access.axes, access.extents, regions, types


def _find_seeds(dataflow: Dataflow, period: int) -> dict[int, Seed]:
    seeds: dict[int, Seed] = {}
    ends: list[tuple[list[tuple[int, int]], int]] = []
    for number, (_, classes) in enumerate(find_time_steps(dataflow)):
        for equal in classes:
            if len(equal.counterparts) < LEAST_LAYERS:
                continue
            steps = sorted(equal.counterparts)
            # The distance is 2 if a layer is two steps, such as attention and perceptron.
            distance = gcd(*(step - steps[0] for step in steps[1:]))
            for step, counterpart in equal.counterparts.items():
                for reference, position in counterpart.items():
                    seeds[position] = number, reference, step // distance % period
            for last, inner in ((steps[0], steps[1]), (steps[-1], steps[-2])):
                counterparts = equal.counterparts[last]
                pairs = [(o, counterparts[r]) for r, o in equal.counterparts[inner].items() if r in counterparts]
                ends.append((pairs, (last - inner) // distance))
    for pairs, shift in ends:
        seeds |= _complete_end(dataflow, seeds, pairs, shift, period)
    for position, operator in enumerate(dataflow.graph.operators):
        if position not in seeds and operator.forward in seeds:
            seeds[position] = "backward", dataflow.kinds[position], seeds[operator.forward]
    return seeds | _find_tensor_seeds(dataflow.graph, seeds)


def _complete_end(
    dataflow: Dataflow, seeds: Mapping[int, Seed], pairs: Sequence[tuple[int, int]], shift: int, period: int
) -> dict[int, Seed]:
    operators, kinds = dataflow.graph.operators, dataflow.kinds
    found: dict[int, Seed] = {}
    inner = {o for o, _ in pairs}
    waiting = list(pairs)
    while waiting:
        x, y = (operators[o] for o in waiting.pop())
        around = [(dataflow.producers[u][0], dataflow.producers[v][0]) for u, v in zip(x.inputs, y.inputs, strict=True)]
        for u, v in zip(x.outputs, y.outputs, strict=True):
            around += _pair_readers(dataflow, u, v)
        for p, q in around:
            seed = seeds.get(p)
            is_known = q < 0 or q in seeds or q in found or p in inner
            if seed is None or is_known or kinds[p] != kinds[q]:
                continue
            number, reference, layer = seed
            found[q] = number, reference, (layer + shift) % period
            inner.add(p)
            waiting.append((p, q))
    return found


def _pair_readers(dataflow: Dataflow, first: int, second: int) -> Iterator[tuple[int, int]]:
    first_readers, second_readers = _group_readers(dataflow, first), _group_readers(dataflow, second)
    for key, readers in first_readers.items():
        others = second_readers.get(key, [])
        if len(readers) == len(others) == 1:
            yield readers[0], others[0]


def _group_readers(dataflow: Dataflow, tensor: int) -> Mapping[tuple[int, int], list[int]]:
    grouped: dict[tuple[int, int], list[int]] = defaultdict(list)
    for reader, slot in dataflow.readers[tensor]:
        grouped[dataflow.kinds[reader], slot].append(reader)
    return grouped


def _find_tensor_seeds(graph: Graph, seeds: Mapping[int, Seed]) -> dict[int, Seed]:
    roles: dict[object, list[int]] = defaultdict(list)
    for position, seed in seeds.items():
        operator = graph.operators[position]
        for role, tensors in (("input", operator.inputs), ("output", operator.outputs)):
            for slot, tensor in enumerate(tensors):
                roles[role, slot, seed].append(len(graph.operators) + tensor)
    families = join_families(roles.values())
    return {node: ("tensor", number) for number, family in enumerate(families) for node in family}


def _refine_colours(dataflow: Dataflow, seeds: Mapping[int, Seed], elementwise: frozenset[int]) -> Colours:
    start = _mix(np.array(_number(_describe_nodes(dataflow, seeds)), dtype=np.uint64))
    targets, sources, ports = _list_edges(dataflow, elementwise)
    order = np.argsort(targets, kind="stable")
    targets, sources, ports = targets[order], sources[order], _mix(ports[order])
    first = np.flatnonzero(np.diff(targets, prepend=-1))  # the first edge of each target
    is_fixed = np.zeros(len(start), dtype=bool)
    is_fixed[list(seeds)] = True
    colours, count = start, len(np.unique(start))
    while True:
        around = np.zeros_like(start)
        around[targets[first]] = np.add.reduceat(_mix(colours[sources] ^ ports), first)
        refined = np.where(is_fixed, start, _mix(start ^ _mix(around)))
        found = len(np.unique(refined))
        if found <= count:
            return colours
        colours, count = refined, found


def _describe_nodes(dataflow: Dataflow, seeds: Mapping[int, Seed]) -> list[object]:
    graph = dataflow.graph
    results = {*graph.outputs, *graph.next_values.values()}
    nodes: list[object] = [("operator", kind) for kind in dataflow.kinds]
    nodes += [("tensor", t.kind, t.shape, t.dtype, t.times, i in results) for i, t in enumerate(graph.tensors)]
    return [seeds.get(number, node) for number, node in enumerate(nodes)]


def _number(descriptions: Sequence[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(description, len(numbers)) for description in descriptions]


def _list_counted(dataflow: Dataflow, elementwise: frozenset[int]) -> list[bool]:
    graph, is_counted = dataflow.graph, []
    for tensor, (producer, _), readers in zip(graph.tensors, dataflow.producers, dataflow.readers, strict=True):
        is_link = (
            producer in elementwise and len(readers) == 1 and dataflow.kinds[producer] == dataflow.kinds[readers[0][0]]
        )
        is_counted.append(prod(tensor.shape) > 1 and not is_link)
    return is_counted


def _list_edges(
    dataflow: Dataflow, elementwise: frozenset[int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Colours]:
    graph = dataflow.graph
    first = len(graph.operators)
    is_counted = _list_counted(dataflow, elementwise)
    links = [
        (role, slot, o, first + t)
        for o, op in enumerate(graph.operators)
        for role, tensors in (("input", op.inputs), ("output", op.outputs))
        for slot, t in enumerate(tensors)
        if is_counted[t]
    ]
    links += [("backward", 0, o, op.forward) for o, op in enumerate(graph.operators) if op.forward is not None]
    links += [("update", 0, first + variable, first + needed) for variable, needed in graph.updates]
    links += [("carry", 0, first + carry.tensor, first + carry.last) for carry in graph.carries]
    ports = _number([port for what, slot, _, _ in links for port in ((what, slot, "here"), (what, slot, "there"))])
    ends = np.array([(a, b) for *_, a, b in links], dtype=np.int64).reshape(-1, 2)
    return ends.ravel(), ends[:, ::-1].ravel(), np.array(ports, dtype=np.uint64)


def _mix(values: Colours) -> Colours:
    mixed = (values + np.uint64(0x632BE59BD9B4E019)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
