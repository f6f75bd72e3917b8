"""Dependencies through reused buffers: a task that writes to a buffer waits until its previous content has been read.

Backends reuse buffers in the order of the program (section 6), so a fetch may have to wait for its buffer although its
sources are ready. Here each result takes the smallest free buffer of its worker that is large enough, or a new one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict

import numpy as np

from tofu.program import NodeKind, Program

Free = list[tuple[int, int]]  # (bytes, buffer), by bytes


def order_by_memory(program: Program) -> list[list[int]]:
    """Return, for each node, the nodes that must have read the previous content of its buffer. Takes O(n log n) time."""
    tables = program.tables
    size = program.entry_bytes
    count = len(tables.node_kind)
    lasting = set(tables.output_entry.tolist())
    lasting.update(np.flatnonzero(tables.node_kind[tables.entry_node] == NodeKind.VARIABLE).tolist())
    readers: list[list[int]] = [[] for _ in range(len(size))]
    for node, entry in zip(tables.read_node.tolist(), tables.read_entry.tolist(), strict=True):
        readers[entry].append(node)
    written: list[list[int]] = [[] for _ in range(count)]
    for entry, node in enumerate(tables.entry_node.tolist()):
        if entry not in lasting:
            written[node].append(entry)
    waits: list[list[int]] = [[] for _ in range(count)]
    free: dict[int, Free] = defaultdict(list)
    left: list[list[int]] = []  # for each buffer, the readers of its latest content
    freed: list[list[tuple[int, int, int]]] = [
        [] for _ in range(count)
    ]  # for each node, the worker, bytes and number of each buffer that becomes free after it
    for node, worker in enumerate(tables.node_worker.tolist()):
        own = free[worker]
        for entry in written[node]:
            needed = int(size[entry])
            place = bisect_left(own, (needed, -1))
            if place < len(own):
                capacity, buffer = own.pop(place)
                waits[node] += left[buffer]
            else:
                capacity, buffer = needed, len(left)
                left.append([])
            left[buffer] = readers[entry] or [node]
            freed[max(left[buffer])].append((worker, capacity, buffer))
        for owner, capacity, buffer in freed[node]:
            insort(free[owner], (capacity, buffer))
    return waits
