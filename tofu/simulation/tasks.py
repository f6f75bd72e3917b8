"""Make the tasks of a simulation: the kernels, fetches (copies from other workers) and weight updates of a program."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tofu.program import NodeKind, PlannedProgram
from tofu.simulation.kernels import UPDATE
from tofu.simulation.machine import Machine
from tofu.simulation.memory_order import order_by_memory
from tofu.simulation.work import Column, Floats, Work, count_sources, list_updates, measure_work

Share = tuple[int, float]  # a resource, and how much of its capacity a task uses at full speed


@dataclass(frozen=True)
class Tasks:
    """The tasks of a program. Task n runs node n of the program. The last tasks are weight updates.

    Attributes
    ----------
    seconds
        The duration of each task if it shares no resource.
    stream
        The number of the queue in which each task waits. A device runs the tasks of a queue one at a time.
    waits_for
        The tasks that must end before each task starts.
    shares
        The resources that each task shares with other tasks, and the amounts that it uses.
    """

    seconds: Floats
    stream: Column
    waits_for: tuple[tuple[int, ...], ...]
    shares: dict[int, tuple[Share, ...]]
    capacity: tuple[float, ...]
    is_fetch: npt.NDArray[np.bool_]
    worker: Column
    work: Work

    def __len__(self) -> int:
        return len(self.seconds)


def make_tasks(program: PlannedProgram, machine: Machine, states: int, *, shares_buffers: bool = True) -> Tasks:
    """Return the tasks of a program.

    With `shares_buffers=True`, tasks also wait until the buffers that they reuse are free.
    """
    tables = program.tables
    work = measure_work(program, states)
    updates = list_updates(program)
    worker = np.concatenate([tables.node_worker, np.array([update.worker for update in updates], np.int64)])
    is_fetch = np.concatenate([tables.node_kind == NodeKind.FETCH, np.zeros(len(updates), bool)])
    waits_for: list[list[int]] = [[] for _ in range(len(worker))]
    reads = zip(tables.read_node.tolist(), tables.entry_node[tables.read_entry].tolist(), strict=True)
    for node, writer in dict.fromkeys(reads):
        waits_for[node].append(writer)
    for node, readers in enumerate(order_by_memory(program) if shares_buffers and program.kernel_bytes is None else ()):
        waits_for[node] += set(readers).difference(waits_for[node])
    for number, update in enumerate(updates, start=len(tables.node_kind)):
        waits_for[number].append(int(tables.entry_node[update.entry]))
    slowdown = machine.slowdown if program.workers == 1 else machine.slowdown_of_several
    seconds = work.take_seconds(machine.rates, program.workers) * np.where(is_fetch, 1.0, slowdown)
    stream = 2 * worker + (is_fetch if machine.fetches_overlap else 0)
    shared_resources = _SharedResources(machine)
    if machine.links:
        shared_resources.use_links(program, seconds, work)
    if machine.processors:
        shared_resources.share_processors(seconds, machine.processors)
    if UPDATE in machine.rates.measured:
        shared_resources.issue_updates(seconds, work, machine.rates.measured[UPDATE].call)
    return Tasks(
        seconds,
        stream,
        tuple(map(tuple, waits_for)),
        {task: tuple(shares) for task, shares in shared_resources.shares.items()},
        tuple(shared_resources.capacity),
        is_fetch,
        worker,
        work,
    )


class _SharedResources:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._resource_numbers: dict[tuple[object, ...], int] = {}
        self.capacity: list[float] = []
        self.shares: dict[int, list[Share]] = defaultdict(list)

    def share_processors(self, seconds: Floats, processors: float) -> None:
        number = self._find_resource(("processors",), processors)
        for task in np.flatnonzero(seconds).tolist():
            self.shares[task].append((number, 1.0))

    def issue_updates(self, seconds: Floats, work: Work, call: float) -> None:
        number = self._find_resource(("host",))  # issues one update after the other
        for task in np.flatnonzero(is_update(work)).tolist():
            self.shares[task].append((number, call / float(seconds[task])))

    def use_links(self, program: PlannedProgram, seconds: Floats, work: Work) -> None:
        sources, tables = count_sources(program), program.tables
        size_by_owner_of_fetch: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        reader = tables.node_worker[sources.node]
        is_remote = np.flatnonzero(sources.owner != reader)
        columns = (column[is_remote].tolist() for column in (sources.node, sources.owner, sources.size))
        for node, owner, size in zip(*columns, strict=True):
            size_by_owner_of_fetch[node][owner] += size
        for node, size_by_owner in size_by_owner_of_fetch.items():
            times = int(work.times[node])
            latency, busy_seconds = self._find_link_use(int(tables.node_worker[node]), size_by_owner)
            fetch_seconds = max(latency * times + max(busy_seconds.values()) * times, float(seconds[node]))
            seconds[node] = fetch_seconds
            self.shares[node] += [
                (resource, occupied * times / fetch_seconds) for resource, occupied in busy_seconds.items()
            ]

    def _find_link_use(self, reader: int, size_by_owner: dict[int, int]) -> tuple[float, dict[int, float]]:
        busy_seconds: dict[int, float] = defaultdict(float)
        latency = 0.0
        for owner, size in size_by_owner.items():
            level = self._machine.level_of(reader, owner)
            link = self._machine.links[level]
            latency = max(latency, link.seconds)
            for side, device in (("in", reader), ("out", owner)):
                port = self._find_resource((side, level, self._machine.part_of(device, level)))
                busy_seconds[port] += size / link.bytes_per_second
            if link.shared is not None:
                busy_seconds[self._find_resource(("shared", level))] += size / link.shared
        return latency, busy_seconds

    def _find_resource(self, name: tuple[object, ...], capacity: float = 1.0) -> int:
        if name not in self._resource_numbers:
            self._resource_numbers[name] = len(self.capacity)
            self.capacity.append(capacity)
        return self._resource_numbers[name]


def is_update(work: Work) -> npt.NDArray[np.bool_]:
    """Return an array that is True for each task that updates weights."""
    return np.asarray(work.kind == work.kinds.index(UPDATE)) if UPDATE in work.kinds else np.zeros(len(work.kind), bool)
