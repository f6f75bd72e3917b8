"""The ways to train of section 7.1, each simulated on the same machine: what a step takes, and whether it fits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from benchmarks.evaluation.held_memory import Added, Freed, measure_held
from benchmarks.evaluation.programs import DEVICES, STATES, Programs
from benchmarks.evaluation.swapping import Swapping, swap
from tofu.errors import TofuError
from tofu.program import NodeKind, PlannedProgram
from tofu.simulation.events import run_tasks
from tofu.simulation.machine import Machine
from tofu.simulation.simulate import simulate
from tofu.simulation.tasks import Tasks, make_tasks

DEFAULT_SWAPPING = Swapping()
LAYER = re.compile(r"lstm(\d+)_")


class Overlap(Enum):
    """Which layers run at the same time on their devices."""

    READY = "all whose inputs are there"
    FULL = "all, as if no device ever waited"
    NONE = "none, one after the other"


@dataclass(frozen=True)
class Placement:
    """What is settled about operator placement that could be otherwise: the name of the way to train, when memory is free, how gradients
    are added up, which layers overlap, and the largest batch.
    """

    name: str = "operator placement"
    freed: Freed = Freed.AFTER_LAST_USE
    added: Added = Added.IN_PLACE
    overlap: Overlap = Overlap.READY
    largest_batch: int = 512


DEFAULT_PLACEMENT = Placement()
OF_TENSORFLOW = Placement("placement, TensorFlow", added=Added.APART)


@dataclass(frozen=True)
class Outcome:
    """One way to train a model, at the batch that is named: samples per second of all devices together, or none where nothing fits.

    `communication`: the part of the time that is not computation, where it was simulated.
    """

    model: str
    policy: str
    batch: int = 0
    throughput: float = 0.0
    communication: float = 0.0
    needed_bytes: int = 0

    @property
    def fits(self) -> bool:
        """Whether it ran."""
        return self.throughput > 0

    def __str__(self) -> str:
        return (
            f"{self.policy}: {self.throughput:.3g} samples/s at {self.batch}"
            if self.fits
            else f"{self.policy}: out of memory"
        )


def run_ideal(programs: Programs, batch: int, machine: Machine) -> Outcome:
    """One device with memory without end, times 8."""
    program, needed = programs.one_device(batch)
    return Outcome(programs.model, "ideal", batch, DEVICES * _throughput(program, machine), 0.0, needed)


def run_small_batch(programs: Programs, batches: Sequence[int], machine: Machine) -> Outcome:
    """One device at the largest batch that fits, times 8; no gradients are exchanged."""
    for batch in batches:
        program, needed = programs.one_device(batch)
        if needed <= machine.usable_bytes:
            return Outcome(programs.model, "small batch", batch, DEVICES * _throughput(program, machine), 0.0, needed)
    return Outcome(programs.model, "small batch")


def _throughput(program: PlannedProgram, machine: Machine) -> float:
    return simulate(program, machine, states=STATES).throughput


def run_partitioned(
    programs: Programs, batches: Sequence[int], machine: Machine, algorithm: str = "recursive", name: str = "Tofu"
) -> Outcome:
    """The plan of an algorithm at the largest batch that fits."""
    for batch in batches:
        planned = programs.partition(batch, algorithm)
        if isinstance(planned, TofuError):
            continue
        program, needed = planned
        if max(needed) <= machine.usable_bytes:
            found = simulate(program, machine, states=STATES)
            return Outcome(programs.model, name, batch, found.throughput, found.waiting_share, max(needed))
    return Outcome(programs.model, name)


def run_swapping(
    programs: Programs, batches: Sequence[int], machine: Machine, way: Swapping = DEFAULT_SWAPPING
) -> Outcome:
    """Every device trains the whole model on a batch of its own and swaps with the host; the batch is the one that is fastest."""
    found = (_swap(programs, batch, machine, way) for batch in batches)
    if way.takes_largest:
        return next((one for one in found if one.fits), Outcome(programs.model, "swapping"))
    return max(found, key=lambda one: one.throughput)


def _swap(programs: Programs, batch: int, machine: Machine, way: Swapping) -> Outcome:
    program, _ = programs.one_device(batch)
    tasks = make_tasks(program, machine, STATES)
    swapped = swap(program, tasks, machine.usable_bytes, machine.host / DEVICES, STATES, way)
    if swapped is None:
        return Outcome(programs.model, "swapping")
    computed = float(tasks.seconds.sum())
    return Outcome(
        programs.model, "swapping", batch, DEVICES * batch / swapped, 1 - computed / swapped, machine.usable_bytes
    )


def run_placement(
    programs: Programs, batches: Sequence[int], machine: Machine, way: Placement = DEFAULT_PLACEMENT
) -> Outcome:
    """Layers on devices, round robin, the steps of a recurrence pipelined, at the largest batch that fits."""
    for batch in (one for one in batches if one <= way.largest_batch):
        program, _ = programs.one_device(batch)
        placed = _place(program)
        needed = measure_held(program, placed, way.freed, way.added)
        if max(needed) <= machine.usable_bytes:
            tasks = _spread(program, placed, machine)
            busy = np.bincount(tasks.worker, tasks.seconds * ~tasks.is_fetch, DEVICES)
            seconds = float(_take_seconds(tasks, busy, way))
            return Outcome(
                programs.model, way.name, batch, batch / seconds, 1 - float(busy.mean()) / seconds, max(needed)
            )
    return Outcome(programs.model, way.name)


def _take_seconds(tasks: Tasks, busy: Any, way: Placement) -> float:
    if way.overlap is Overlap.NONE:
        return float(busy.sum())
    return float(busy.max() if way.overlap is Overlap.FULL else run_tasks(tasks)[1].max())


def _place(program: PlannedProgram) -> list[int]:
    """The device of each node: that of its layer, in turn."""
    tables, graph = program.tables, program.graph
    kinds, numbers = tables.node_kind.tolist(), tables.node_id.tolist()
    read: list[list[int]] = [[] for _ in kinds]
    for node, before in zip(tables.read_node.tolist(), tables.entry_node[tables.read_entry].tolist(), strict=True):
        read[node].append(before)
    layers: list[int | None] = []
    of_operator: dict[int, int | None] = {}
    for node, (kind, number) in enumerate(zip(kinds, numbers, strict=True)):
        is_operator = kind == NodeKind.OPERATOR
        found = LAYER.search((graph.operators if is_operator else graph.tensors)[number].name)
        layer = int(found[1]) if found else None
        if layer is None and is_operator:  # it goes with its forward operator, or with what it reads
            named = (of_operator.get(graph.operators[number].forward), *(layers[before] for before in read[node]))
            layer = next((one for one in named if one is not None), None)
        if is_operator:
            of_operator[number] = layer
        layers.append(layer)
    for node in reversed(range(len(layers))):
        for before in read[node]:
            if layers[before] is None:  # a variable that names no layer is where it is read
                layers[before] = layers[node]
    return [(layer or 0) % DEVICES for layer in layers]


def _spread(program: PlannedProgram, placed: Sequence[int], machine: Machine) -> Tasks:
    """The tasks of one device on several, with a copy for each tensor that another device reads."""
    own = make_tasks(program, machine, STATES, shares_buffers=False)
    node_bytes = np.bincount(program.tables.entry_node, program.entry_bytes, len(placed))
    worker = [*placed, *(placed[own.waits_for[task][0]] for task in range(len(placed), len(own)))]
    waits = [list(before) for before in own.waits_for]
    seconds, streams, is_fetch = own.seconds.tolist(), [2 * device for device in worker], own.is_fetch.tolist()
    copies: dict[tuple[int, int], int] = {}
    link = machine.links[-1]
    for task in range(len(own)):
        for position, before in enumerate(own.waits_for[task]):
            if worker[before] == worker[task] or seconds[before] == 0:
                continue
            key = before, worker[task]
            if key not in copies:
                copies[key] = len(seconds)
                seconds.append(link.seconds + float(node_bytes[before]) / link.bytes_per_second)
                worker.append(worker[task])
                streams.append(2 * worker[task] + 1)
                is_fetch.append(True)
                waits.append([before])
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
