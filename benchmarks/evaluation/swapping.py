"""Swapping with the host's memory, as section 7.1 of the paper describes it.

The kernels of one device run in order. A tensor that a kernel reads is fetched ahead of it, as soon as there is room.
To make room, the device drops the least recently used tensor that no kernel needs soon. If the host's copy is out of
date, the tensor is written there first. The transfers of a device run one after the other, at its share of the host's
bandwidth.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict

import numpy as np

from tofu.program import NodeKind, PlannedProgram
from tofu.simulation.tasks import Tasks
from tofu.simulation.work import list_updates

SOON = 8  # kernels ahead, whose tensors are not swapped out

Item = tuple[str, int]  # "entry" of the program or "state" of a parameter, and its number


def swap(program: PlannedProgram, tasks: Tasks, memory_bytes: int, bandwidth: float, states: int) -> float | None:
    """Return the seconds of a step in a steady state, or None if one kernel needs more than the memory."""
    uses, sizes, writes = _list_uses(program, tasks, states)
    order = [task for task in range(len(tasks)) if tasks.seconds[task] > 0]
    positions: dict[Item, list[int]] = defaultdict(list)
    for position, task in enumerate(order):
        for item in uses[task]:
            positions[item].append(position)
    device = _SwappingDevice(memory_bytes, bandwidth, sizes, positions, _list_lasting(program))
    ends = []
    for _ in range(2):  # the second step starts with the memory after the first step
        for position, task in enumerate(order):
            if not device.run(position, uses[task], writes[task], float(tasks.seconds[task])):
                return None
        ends.append(device.computed_until)
        device.end_step()
    return ends[1] - ends[0]


def _list_lasting(program: PlannedProgram) -> set[Item]:
    tables = program.tables
    variables = np.flatnonzero(tables.node_kind[tables.entry_node] == NodeKind.VARIABLE).tolist()
    return {("entry", entry) for entry in variables} | {("state", weight) for weight in program.graph.updated}


def _list_uses(
    program: PlannedProgram, tasks: Tasks, states: int
) -> tuple[list[list[Item]], dict[Item, int], list[set[Item]]]:
    tables, graph = program.tables, program.graph
    entry_tensor = program.entry_tensor
    sizes: dict[Item, int] = {("entry", entry): size for entry, size in enumerate(program.entry_bytes.tolist())}
    uses: list[list[Item]] = [[] for _ in range(len(tasks))]
    writes: list[set[Item]] = [set() for _ in range(len(tasks))]
    for node, entry in zip(tables.read_node.tolist(), tables.read_entry.tolist(), strict=True):
        uses[node].append(("entry", entry))
    variables: dict[int, Item] = {}
    for entry, node in enumerate(tables.entry_node.tolist()):
        uses[node].append(("entry", entry))
        writes[node].add(("entry", entry))
        if tables.node_kind[node] == NodeKind.VARIABLE:
            variables[int(entry_tensor[entry])] = "entry", entry
    for task, update in enumerate(list_updates(program), start=len(tables.node_kind)):
        written = [variables[update.parameter]]
        if states:
            state = "state", update.parameter
            sizes[state] = states * graph.tensors[update.parameter].size_bytes
            written.append(state)
        uses[task] = [*written, ("entry", update.entry)]
        writes[task] = set(written)
    return uses, sizes, writes


class _SwappingDevice:
    def __init__(
        self,
        memory_bytes: int,
        bandwidth: float,
        sizes: dict[Item, int],
        positions: dict[Item, list[int]],
        lasting: set[Item],
    ) -> None:
        self._free_bytes, self._bandwidth, self._sizes = memory_bytes, bandwidth, sizes
        self._positions, self._lasting = positions, lasting
        self._resident: OrderedDict[Item, float] = OrderedDict()  # end of the last kernel, least recently used first
        self._is_at_host: set[Item] = set(sizes)
        self._written: set[Item] = set()
        self._link_busy_until = 0.0
        self.computed_until = 0.0

    def run(self, position: int, used: list[Item], written: set[Item], seconds: float) -> bool:
        """Run one kernel. Return False if it does not fit."""
        needed = list(dict.fromkeys(used))
        resident_bytes = sum(self._sizes[item] for item in self._resident)
        if sum(self._sizes[item] for item in needed) > self._free_bytes + resident_bytes:
            return False
        pinned = set(needed)
        ready = 0.0
        for item in needed:
            if item not in self._resident:
                if not self._make_room(self._sizes[item], position, pinned):
                    return False
                self._free_bytes -= self._sizes[item]
                is_new = item in written and item not in self._written and item not in self._lasting
                if not is_new:
                    self._transfer(item)
                    ready = max(ready, self._link_busy_until)
        self.computed_until = max(self.computed_until, ready) + seconds
        for item in needed:
            self._resident[item] = self.computed_until
            self._resident.move_to_end(item)
            if item in written:
                self._is_at_host.discard(item)
                self._written.add(item)
            if self._positions[item][-1] <= position and item not in self._lasting:
                self._release(item)
        return True

    def end_step(self) -> None:
        for item in set(self._resident) - self._lasting:
            self._release(item)
        self._written.clear()

    def _transfer(self, item: Item) -> None:
        self._link_busy_until += self._sizes[item] / self._bandwidth

    def _release(self, item: Item) -> None:
        del self._resident[item]
        self._free_bytes += self._sizes[item]

    def _make_room(self, size: int, position: int, pinned: set[Item]) -> bool:
        while self._free_bytes < size:
            victim = self._choose_victim(position, pinned)
            if victim is None:
                return False
            self._link_busy_until = max(self._link_busy_until, self._resident[victim])  # its last kernel has ended
            if victim not in self._is_at_host:
                self._transfer(victim)
                self._is_at_host.add(victim)
            self._release(victim)
        return True

    def _choose_victim(self, position: int, pinned: set[Item]) -> Item | None:
        """Return the least recently used item, preferably one that no kernel needs soon."""
        fallback = None
        for item in self._resident:
            if item in pinned:
                continue
            if not any(position <= use < position + SOON for use in self._positions[item]):
                return item
            fallback = fallback or item
        return fallback
