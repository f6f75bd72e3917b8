"""Swapping with the host's memory, as section 7.1 sets it up: least recently used, prefetching, read-only tensors dropped, look-ahead.

The kernels of one device run in their order. What a kernel reads and is not there is fetched ahead of it, as early as there is room. Room
is made by the tensor that was used least recently, none of which are used soon; one that the host has in its present state is dropped, all
others are written to the host. The transfers of a device run one after the other, at its part of the host's bandwidth.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, defaultdict
from dataclasses import dataclass

import numpy as np

from tofu.program import NodeKind, PlannedProgram
from tofu.simulation.tasks import Tasks
from tofu.simulation.work import list_updates

SOON = 8  # kernels ahead, whose tensors are not swapped out


@dataclass(frozen=True)
class Swapping:
    """What is settled about swapping that could be otherwise.

    Attributes
    ----------
    ahead
        How many kernels ahead a fetch is issued at the earliest; 0: when all kernels before have ended. None: as early as there is room.
    knows_next_use
        Room is made by the tensor whose next use is the farthest away, not by the one that was used least recently.
    takes_largest
        The batch is the largest with which each kernel has room, not the one that is fastest.
    reuses
        Of the kernels whose inputs are there, the one is next whose largest tensor was used last; else they run in the program's order.
    is_duplex
        The host is written while it is read, each at the whole bandwidth.
    """

    ahead: int | None = None
    knows_next_use: bool = False
    takes_largest: bool = False
    reuses: bool = False
    is_duplex: bool = False


def swap(
    program: PlannedProgram, tasks: Tasks, memory_bytes: int, bandwidth: float, states: int, way: Swapping
) -> float | None:
    """The seconds of a step in a steady state, or None where a single kernel needs more than the memory."""
    uses, size, writes = _list_uses(program, tasks, states)
    order = _order_by_reuse(tasks, uses, size) if way.reuses else list(range(len(tasks)))
    order = [task for task in order if tasks.seconds[task] > 0]
    lasting = _list_lasting(program)
    device = _Device(memory_bytes, bandwidth, size, _find_uses(order, uses), lasting, way, len(order))
    first = None
    for step in range(2):  # the second begins with what the first one leaves
        for position, task in enumerate(order):
            if not device.run(
                step * len(order) + position, position, uses[task], writes[task], float(tasks.seconds[task])
            ):
                return None
        if step == 0:
            first = device.computed
            device.forget()
    return device.computed - (first or 0.0)


def _list_lasting(program: PlannedProgram) -> set[tuple[str, int]]:
    """What a step leaves for the next: variables and the states of the optimizer."""
    tables = program.tables
    variables = np.flatnonzero(tables.node_kind[tables.entry_node] == NodeKind.VARIABLE).tolist()
    return {("entry", entry) for entry in variables} | {("state", parameter) for parameter in program.graph.updated}


def _list_uses(
    program: PlannedProgram, tasks: Tasks, states: int
) -> tuple[list[list[tuple[str, int]]], dict[tuple[str, int], int], list[set[tuple[str, int]]]]:
    """What each task touches, the bytes of everything, and what each task writes."""
    tables, graph = program.tables, program.graph
    entry_bytes, entry_tensor = program.entry_bytes, program.entry_tensor
    size: dict[tuple[str, int], int] = {
        ("entry", entry): int(count) for entry, count in enumerate(entry_bytes.tolist())
    }
    uses: list[list[tuple[str, int]]] = [[] for _ in range(len(tasks))]
    writes: list[set[tuple[str, int]]] = [set() for _ in range(len(tasks))]
    for node, entry in zip(tables.read_node.tolist(), tables.read_entry.tolist(), strict=True):
        uses[node].append(("entry", entry))
    for entry, node in enumerate(tables.entry_node.tolist()):
        uses[node].append(("entry", entry))
        writes[node].add(("entry", entry))
    of_variable = {
        int(entry_tensor[entry]): ("entry", entry)
        for entry, node in enumerate(tables.entry_node.tolist())
        if tables.node_kind[node] == NodeKind.VARIABLE
    }
    for task, update in enumerate(list_updates(program), start=len(tables.node_kind)):
        touched = [of_variable[update.parameter]]
        if states:
            state = "state", update.parameter
            size[state] = states * graph.tensors[update.parameter].size_bytes
            touched.append(state)
        uses[task] = [*touched, ("entry", update.entry)]
        writes[task] = set(touched)
    return uses, size, writes


def _order_by_reuse(tasks: Tasks, uses: list[list[tuple[str, int]]], size: dict[tuple[str, int], int]) -> list[int]:
    """An order in which tasks follow those that used the same large tensor, where what they wait for allows it."""
    largest = [max(own, key=lambda one: size[one], default=None) for own in uses]
    left = [len(before) for before in tasks.waits_for]
    readers: list[list[int]] = [[] for _ in left]
    for task, before in enumerate(tasks.waits_for):
        for one in before:
            readers[one].append(task)
    ready = {task for task, count in enumerate(left) if count == 0}
    used: dict[tuple[str, int] | None, int] = {}
    order: list[int] = []
    while ready:
        task = max(ready, key=lambda one: (used.get(largest[one], -1), -one))
        ready.remove(task)
        order.append(task)
        used.update((touched, len(order)) for touched in uses[task])
        for reader in readers[task]:
            left[reader] -= 1
            if left[reader] == 0:
                ready.add(reader)
    return order


def _find_uses(order: list[int], uses: list[list[tuple[str, int]]]) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for position, task in enumerate(order):
        for touched in uses[task]:
            found[touched].append(position)
    return found


class _Device:
    """The memory of a device while kernels run: what is there, what the host has, and when the link is free."""

    def __init__(
        self,
        memory_bytes: int,
        bandwidth: float,
        size: dict[tuple[str, int], int],
        positions: dict[tuple[str, int], list[int]],
        lasting: set[tuple[str, int]],
        way: Swapping,
        kernels: int,
    ) -> None:
        self._free, self._bandwidth, self._size = memory_bytes, bandwidth, size
        self._positions, self._lasting = positions, lasting
        self._way, self._kernels = way, kernels
        self._begun: list[float] = []
        self._there: OrderedDict[tuple[str, int], float] = (
            OrderedDict()
        )  # least recently used first -> when its last kernel ended
        self._is_at_host: set[tuple[str, int]] = set(size)
        self._made: set[tuple[str, int]] = set()
        self._reading, self._writing = 0, int(way.is_duplex)
        self._links = [0.0, 0.0]  # until when they are busy
        self.computed = 0.0

    def run(
        self, number: int, position: int, touched: list[tuple[str, int]], written: set[tuple[str, int]], seconds: float
    ) -> bool:
        """One kernel; False where it does not fit."""
        needed = list(dict.fromkeys(touched))
        if sum(self._size[one] for one in needed) > self._free + sum(self._size[one] for one in self._there):
            return False
        pinned = set(needed)
        ready = 0.0
        for one in needed:
            if one not in self._there:
                self._wait(self._reading, self._find_earliest())
                if not self._make_room(self._size[one], position, pinned):
                    return False
                self._free -= self._size[one]
                is_new = one in written and one not in self._made and one not in self._lasting
                if not is_new:
                    ready = max(ready, self._move(self._reading, self._size[one]))
        self._begun.append(max(self.computed, ready))
        self.computed = self._begun[-1] + seconds
        for one in needed:
            self._there[one] = self.computed
            self._there.move_to_end(one)
            if one in written:
                self._is_at_host.discard(one)
                self._made.add(one)
            if self._positions[one][-1] <= position and one not in self._lasting:
                self._release(one)
        return True

    def forget(self) -> None:
        """A step has ended: what it computed is gone."""
        for one in set(self._there) - self._lasting:
            self._release(one)
        self._made.clear()

    def _wait(self, link: int, until: float) -> None:
        self._links[link] = max(self._links[link], until)

    def _move(self, link: int, size: int) -> float:
        """When so many bytes have crossed."""
        self._links[link] += size / self._bandwidth
        return self._links[link]

    def _find_earliest(self) -> float:
        """When what the next kernel reads may be fetched."""
        ahead = self._way.ahead
        if ahead is None or len(self._begun) < ahead:
            return 0.0
        return self._begun[-ahead] if ahead else self.computed

    def _release(self, one: tuple[str, int]) -> None:
        del self._there[one]
        self._free += self._size[one]

    def _make_room(self, size: int, position: int, pinned: set[tuple[str, int]]) -> bool:
        while self._free < size:
            victim = self._choose(position, pinned)
            if victim is None:
                return False
            self._wait(self._writing, self._there[victim])  # not before its last kernel has ended
            if victim not in self._is_at_host:
                self._move(self._writing, self._size[victim])
                self._is_at_host.add(victim)
            self._wait(self._reading, self._links[self._writing])
            self._release(victim)
        return True

    def _choose(self, position: int, pinned: set[tuple[str, int]]) -> tuple[str, int] | None:
        """The least recently used that no kernel needs soon; if all are, the least recently used. Or that of the farthest next use."""
        if self._way.knows_next_use:
            free = (one for one in self._there if one not in pinned)
            return max(free, key=lambda one: self._find_next(one, position), default=None)
        fallback = None
        for one in self._there:
            if one in pinned:
                continue
            if not any(position <= use < position + SOON for use in self._positions[one]):
                return one
            fallback = fallback or one
        return fallback

    def _find_next(self, one: tuple[str, int], position: int) -> int:
        """The position of the next kernel that touches it, in the next step where none does in this one."""
        positions = self._positions[one]
        number = bisect_right(positions, position)
        return positions[number] if number < len(positions) else positions[0] + self._kernels
