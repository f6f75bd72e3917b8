"""Repeated layers, which are planned once: blocks of equal operators with separate parameters, as in a Transformer.

A search that decides separately for 96 equal layers takes 96 times as long, and would treat nearly all of them alike. So
every second layer takes the same choices. Neighbours may differ, because the best plan for a chain of equal products may
alternate between two layouts. A plan that treats the first and last layers otherwise may transfer slightly less. Small
graphs are searched without this restriction.

Layers are found like time steps (`tofu.search.time_steps`), with signatures that ignore parameters. Their operators are
the *seeds*. All other operators and tensors are then compared by colour refinement: two nodes keep one colour only if
they are of one kind and have neighbours of the same colours in the same roles. For example, an optimizer's states belong
to the layer of the gradient that updates them. Each round of refinement is linear in the edges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tofu.graph import Graph
from tofu.search.dataflow import Wiring, trace_wiring
from tofu.search.recurrence import NO_PARTS, EqualParts
from tofu.search.time_steps import find_time_steps

LEAST_OPERATORS = 2000
"""In graphs with fewer operators, layers may take different choices."""
LEAST_LAYERS = 6
"""If there are fewer equal layers, they may take different choices."""
PERIOD = 2
"""Layers at this distance take the same choices."""

Colours: TypeAlias = "npt.NDArray[np.uint64]"


def find_repeated_layers(graph: Graph, wiring: Wiring | None = None) -> EqualParts:
    """Find the operators and tensors of `graph` that correspond in repeated layers.

    The result is empty for fewer than `LEAST_OPERATORS` operators or `LEAST_LAYERS` equal layers.

    >>> find_repeated_layers(Graph((), (), ()))
    EqualParts(operators=(), tensors=())
    """
    if len(graph.operators) < LEAST_OPERATORS:
        return NO_PARTS
    wiring = (wiring or trace_wiring(graph)).without_parameters()
    seeds = _find_seeds(wiring)
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


def _find_seeds(wiring: Wiring) -> dict[int, object]:
    """Return the operators of repeated layers, each with a key that is equal for corresponding operators."""
    seeds: dict[int, object] = {}
    for number, (_, classes) in enumerate(find_time_steps(wiring)):
        for equal in classes:
            if len(equal.counterparts) < LEAST_LAYERS:
                continue
            for layer, counterpart in equal.counterparts.items():
                for operator, position in counterpart.items():
                    seeds[position] = number, operator, layer % PERIOD
    for position, operator in enumerate(wiring.graph.operators):
        if position not in seeds and operator.forward in seeds:
            seeds[position] = "backward", wiring.kinds[position], seeds[operator.forward]
    return seeds


def _refine(wiring: Wiring, seeds: Mapping[int, object]) -> Colours:
    """Return a colour for every operator, then for every tensor. Nodes of one colour correspond. Seeds keep their colours."""
    graph = wiring.graph
    start = _mix(np.array(_number(_describe_nodes(wiring, seeds)), dtype=np.uint64))
    targets, sources, ports = _list_edges(graph)
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


def _describe_nodes(wiring: Wiring, seeds: Mapping[int, object]) -> list[object]:
    graph = wiring.graph
    results = {*graph.outputs, *graph.next_values.values()}
    operators = [seeds.get(o, ("operator", kind)) for o, kind in enumerate(wiring.kinds)]
    tensors = [("tensor", t.kind, t.shape, t.dtype, t.times, i in results) for i, t in enumerate(graph.tensors)]
    return [*operators, *tensors]


def _number(descriptions: Sequence[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(description, len(numbers)) for description in descriptions]


def _list_edges(graph: Graph) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Colours]:
    """Return the two ends of all edges, in both directions, and the role that each edge has at its first end."""
    first = len(graph.operators)
    links = [("input", slot, o, first + t) for o, op in enumerate(graph.operators) for slot, t in enumerate(op.inputs)]
    links += [("output", i, o, first + t) for o, op in enumerate(graph.operators) for i, t in enumerate(op.outputs)]
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
