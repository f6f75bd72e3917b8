"""Repeated layers: blocks of equal operators with separate parameters, one after the other, as in a Transformer.

Deciding for each of 96 equal layers takes 96 times as long, for a plan that treats nearly all of them alike. So equal
layers share one choice, every second one, because the best plan for a chain of equal products may alternate between two
layouts. The first and last layers have other neighbours, and a plan with different choices for them may move slightly
less. Small graphs are searched without ties.

Layers are found like time steps (`tofu.search.time_steps`), with signatures that ignore parameters: once in the forward
pass, once in the backward pass. From these seeds equality spreads to all other operators and tensors by refinement: two
stay alike while they are of one kind, and so are their neighbours at the same slots. The gradient that it reads tells
apart what belongs to the weight of one layer, such as an optimizer's states. Each refinement is linear in the edges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import gcd, prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tofu.analysis import OperatorAccess
from tofu.graph import Graph, Operator
from tofu.search.dataflow import SHARED_KINDS, Wiring, trace_wiring
from tofu.search.recurrence import NO_PARTS, EqualParts
from tofu.search.time_steps import find_time_steps

LEAST_OPERATORS = 2000
"""Graphs with fewer operators are searched without ties."""
LEAST_LAYERS = 6
"""Fewer equal layers are not tied."""
PERIOD = 2
"""Distance between layers that share one choice, unless the search of such plans is too large: then all layers share it."""

Colours: TypeAlias = "npt.NDArray[np.uint64]"


def find_repeated_layers(graph: Graph, accesses: Sequence[OperatorAccess], period: int = PERIOD) -> EqualParts:
    """Return the operators and tensors of `graph` that correspond in equal layers, `period` layers apart.

    Empty if it has fewer than `LEAST_OPERATORS` operators, or fewer than `LEAST_LAYERS` equal layers. `accesses` are
    the strategies of its operators.

    >>> find_repeated_layers(Graph((), (), ()), ())
    EqualParts(operators=(), tensors=())
    """
    if len(graph.operators) < LEAST_OPERATORS:
        return NO_PARTS
    kinds = [_describe_kind(graph, *pair) for pair in zip(graph.operators, accesses, strict=True)]
    wiring = trace_wiring(graph, kinds).for_layers()
    seeds = _find_seeds(wiring, period)
    if not seeds:
        return NO_PARTS
    families: dict[int, list[int]] = defaultdict(list)
    for node, colour in enumerate(_refine(wiring, seeds).tolist()):
        families[colour].append(node)
    first_tensor = len(graph.operators)
    alike = [family for family in families.values() if len(family) > 1]
    return EqualParts(
        tuple(tuple(family) for family in alike if family[0] < first_tensor),
        tuple(tuple(node - first_tensor for node in family) for family in alike if family[0] >= first_tensor),
    )


def _describe_kind(graph: Graph, operator: Operator, access: OperatorAccess) -> tuple[object, ...]:
    """Return what an operator computes, apart from positions: one layer's slice of a stack is like any other's."""
    tensors = [graph.tensors[t] for t in (*operator.inputs, *operator.outputs)]
    rows = [part.rows for part in access.inputs] + [part.rows for part in access.outputs]
    regions = tuple(tuple((row.terms, row.upper - row.lower) for row in part) for part in rows)
    types = tuple((tensor.shape, tensor.dtype, tensor.kind in SHARED_KINDS) for tensor in tensors)
    return operator.op, operator.phase.value, access.axes, access.extents, regions, types


def _find_seeds(wiring: Wiring, period: int) -> dict[int, object]:
    """Return operators of repeated layers -> a key that is equal for corresponding operators."""
    seeds: dict[int, object] = {}
    for number, (_, classes) in enumerate(find_time_steps(wiring)):
        for equal in classes:
            if len(equal.images) < LEAST_LAYERS:
                continue
            first, *others = sorted(equal.images)
            distance = gcd(
                *(step - first for step in others)
            )  # 2 if a layer is two steps, such as attention and perceptron
            for step, image in equal.images.items():
                for model, position in image.items():
                    seeds[position] = number, model, step // distance % period
    for position, operator in enumerate(wiring.graph.operators):
        if position not in seeds and operator.forward in seeds:
            seeds[position] = "backward", wiring.kinds[position], seeds[operator.forward]
    return seeds


def _refine(wiring: Wiring, seeds: Mapping[int, object]) -> Colours:
    """Return a colour for every operator, then every tensor: equal colours mean alike. Seeds keep theirs."""
    start = _mix(np.array(_number(_describe_nodes(wiring, seeds)), dtype=np.uint64))
    targets, sources, ports = _list_edges(wiring)
    order = np.argsort(targets, kind="stable")
    targets, sources, ports = targets[order], sources[order], _mix(ports[order])
    first = np.flatnonzero(np.diff(targets, prepend=-1))  # of the edges of each target
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


def _describe_nodes(wiring: Wiring, seeds: Mapping[int, object]) -> list[object]:
    graph = wiring.graph
    results = {*graph.outputs, *graph.next_values.values()}
    operators = [seeds.get(o, ("operator", kind)) for o, kind in enumerate(wiring.kinds)]
    tensors = [("tensor", t.kind, t.shape, t.dtype, t.times, i in results) for i, t in enumerate(graph.tensors)]
    return [*operators, *tensors]


def _number(descriptions: Sequence[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(description, len(numbers)) for description in descriptions]


def _list_counted(wiring: Wiring) -> list[bool]:
    """Return which tensors tell their neighbours apart.

    A single element is never split. The sums of a chain, such as the norm of all gradients, differ only in their place.
    """
    graph, is_counted = wiring.graph, []
    for tensor, (producer, _), readers in zip(graph.tensors, wiring.producers, wiring.readers, strict=True):
        is_link = producer >= 0 and len(readers) == 1 and wiring.kinds[producer] == wiring.kinds[readers[0][0]]
        is_counted.append(prod(tensor.shape) > 1 and not is_link)
    return is_counted


def _list_edges(wiring: Wiring) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Colours]:
    """Return both ends of all edges, in both directions, and the role of each edge for its first end."""
    graph = wiring.graph
    first = len(graph.operators)
    is_counted = _list_counted(wiring)
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
