"""Operator placement: each layer of a recurrent network on one device, in turn."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from tofu.program import NodeKind, PlannedProgram
from tofu.simulation.machine import Machine
from tofu.simulation.tasks import Tasks, make_tasks

LAYER = re.compile(r"lstm(\d+)_")
SUMS = ("_grad_add", "add_n")  # add up the gradients of several uses, in place


def place_layers(program: PlannedProgram, devices: int) -> list[int]:
    """Return the device of each node.

    An operator's name contains its layer. A gradient is placed with its forward operator, a variable with its reader.
    Other operators are placed with their first placed input.
    """
    tables, graph = program.tables, program.graph
    kinds, numbers = tables.node_kind.tolist(), tables.node_id.tolist()
    sources: list[list[int]] = [[] for _ in kinds]
    for node, source in zip(tables.read_node.tolist(), tables.entry_node[tables.read_entry].tolist(), strict=True):
        sources[node].append(source)
    layers: list[int | None] = []
    operator_layers: dict[int, int | None] = {}
    for node, (kind, number) in enumerate(zip(kinds, numbers, strict=True)):
        is_operator = kind == NodeKind.OPERATOR
        match = LAYER.search((graph.operators if is_operator else graph.tensors)[number].name)
        layer = int(match[1]) if match else None
        if layer is None and is_operator:
            forward = graph.operators[number].forward
            candidates = (operator_layers.get(forward), *(layers[source] for source in sources[node]))
            layer = next((candidate for candidate in candidates if candidate is not None), None)
        if is_operator:
            operator_layers[number] = layer
        layers.append(layer)
    for node in reversed(range(len(layers))):
        for source in sources[node]:
            if layers[source] is None:
                layers[source] = layers[node]
    return [(layer or 0) % devices for layer in layers]


def measure_placed_memory(program: PlannedProgram, devices: Sequence[int], states: int) -> list[int]:
    """Return the bytes that each device needs.

    A device holds variables, gradients and optimizer states for the whole step. A computed tensor is freed after its
    last use.
    """
    tables, graph = program.tables, program.graph
    weights = set(graph.updated)
    gradients = {graph.gradients[weight] for weight in weights}
    last = tables.entry_node.copy()  # the last node that uses each entry
    np.maximum.at(last, tables.read_entry, tables.read_node)
    held = [0] * (1 + max(devices))
    changes: list[dict[int, int]] = [defaultdict(int) for _ in held]  # node -> bytes allocated minus bytes freed
    rows = zip(
        tables.entry_node.tolist(),
        program.entry_bytes.tolist(),
        program.entry_tensor.tolist(),
        last.tolist(),
        strict=True,
    )
    for node, size, tensor, last_use in rows:
        device, is_operator = devices[node], tables.node_kind[node] == NodeKind.OPERATOR
        if tables.node_kind[node] == NodeKind.VARIABLE:
            held[device] += size * (1 + states if tensor in weights else 1)
        elif is_operator and tensor in gradients:
            held[device] += size
        elif not (is_operator and graph.operators[int(tables.node_id[node])].op in SUMS):
            changes[device][node] += size
            changes[device][last_use + 1] -= size
    peaks = [max(np.cumsum([own[node] for node in sorted(own)]).tolist(), default=0) for own in changes]
    return [sum(own) for own in zip(held, peaks, strict=True)]


def spread_tasks(program: PlannedProgram, devices: Sequence[int], machine: Machine, states: int) -> Tasks:
    """Spread the tasks of one device over several. Each tensor is copied to the devices that read it."""
    own = make_tasks(program, machine, states, shares_buffers=False)
    node_bytes = np.bincount(program.tables.entry_node, program.entry_bytes, len(devices))
    worker = [*devices, *(devices[own.waits_for[task][0]] for task in range(len(devices), len(own)))]
    waits = [list(sources) for sources in own.waits_for]
    seconds, streams, is_fetch = own.seconds.tolist(), [2 * device for device in worker], own.is_fetch.tolist()
    copies: dict[tuple[int, int], int] = {}
    link = machine.links[-1]
    for task in range(len(own)):
        for position, source in enumerate(own.waits_for[task]):
            if worker[source] == worker[task] or seconds[source] == 0:
                continue
            key = source, worker[task]
            if key not in copies:
                copies[key] = len(seconds)
                seconds.append(link.seconds + float(node_bytes[source]) / link.bytes_per_second)
                worker.append(worker[task])
                streams.append(2 * worker[task] + 1)
                is_fetch.append(True)
                waits.append([source])
            waits[task][position] = copies[key]
    return Tasks(
        np.array(seconds),
        np.array(streams),
        tuple(map(tuple, waits)),
        {},
        (),
        np.array(is_fetch),
        np.array(worker),
        own.work,
    )
