"""Find dependencies through reused memory: a node may write to a buffer only after the buffer's last content was read.

Backends reuse buffers in the order of the program (section 6), so a fetch may have to wait for a buffer. Each result
takes the smallest free buffer that is large enough, or a new one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict

import numpy as np

from tofu.program import NodeKind, Program

Free = list[tuple[int, int]]  # (bytes, buffer), by bytes


def order_by_memory(program: Program) -> list[list[int]]:
    """For each node, return the nodes that must end before the node may reuse a buffer."""
    tables = program.tables
    size = program.entry_bytes
    node_count = len(tables.node_kind)
    lasting_entries = set(tables.output_entry.tolist())
    lasting_entries.update(np.flatnonzero(tables.node_kind[tables.entry_node] == NodeKind.VARIABLE).tolist())
    readers_by_entry: list[list[int]] = [[] for _ in range(len(size))]
    for node, entry in zip(tables.read_node.tolist(), tables.read_entry.tolist(), strict=True):
        readers_by_entry[entry].append(node)
    entries_by_node: list[list[int]] = [[] for _ in range(node_count)]
    for entry, node in enumerate(tables.entry_node.tolist()):
        if entry not in lasting_entries:
            entries_by_node[node].append(entry)
    waits_for: list[list[int]] = [[] for _ in range(node_count)]
    free_by_worker: dict[int, Free] = defaultdict(list)
    last_readers: list[list[int]] = []  # for each buffer, the readers of its latest content
    # For each node, the worker, bytes and number of each buffer that it frees.
    freed_after: list[list[tuple[int, int, int]]] = [[] for _ in range(node_count)]
    for node, worker in enumerate(tables.node_worker.tolist()):
        free_buffers = free_by_worker[worker]
        for entry in entries_by_node[node]:
            needed_bytes = int(size[entry])
            place = bisect_left(free_buffers, (needed_bytes, -1))
            if place < len(free_buffers):
                capacity, buffer = free_buffers.pop(place)
                waits_for[node] += last_readers[buffer]
            else:
                capacity, buffer = needed_bytes, len(last_readers)
                last_readers.append([])
            last_readers[buffer] = readers_by_entry[entry] or [node]
            freed_after[max(last_readers[buffer])].append((worker, capacity, buffer))
        for owner, capacity, buffer in freed_after[node]:
            insort(free_by_worker[owner], (capacity, buffer))
    return waits_for
