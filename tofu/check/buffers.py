"""No two entries that are in use together share memory: the rule of every plan of buffers, whoever made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tofu import _mxnet

SUM = "_grad_add"  # MXNet has the second of two gradients added right into the first


def find_shared_buffers(
    execution_symbol: Any, shapes: Mapping[str, tuple[int, ...]], codes: Mapping[str, int]
) -> list[str]:
    """Sentences about entries that lie in a buffer which is still needed, given shapes and type codes of the variables.

    An entry may enter a buffer that is in use only where it is computed out of what lies there, in place, or added into it.
    """
    handle = execution_symbol.handle.value
    table = _mxnet.memory_entries(handle, dict(shapes), dict(codes))
    nodes = _mxnet.nodes(handle)
    columns = (table[name].tolist() for name in ("buffer", "node", "output", "last", "group"))
    alive: dict[
        int, list[tuple[int, int, int, int]]
    ] = {}  # by buffer: node, output, last and group of those not yet done with
    problems = []
    for buffer, node, output, last, group in zip(*columns, strict=True):
        if buffer < 0:
            continue
        others = [other for other in alive.get(buffer, ()) if other[2] >= node]
        if any(other[3] != group for other in alive.get(buffer, ())):
            problems.append(f"{table['nodes'][node]} shares a buffer with an entry of another worker")
        if others and not _may_enter(nodes, node, last, others):
            names = ", ".join(table["nodes"][other[0]] for other in others)
            problems.append(f"{table['nodes'][node]} is written into a buffer that still holds {names}")
        alive[buffer] = [*others, (node, output, last, group)]
    return problems


def _may_enter(
    nodes: Sequence[Mapping[str, Any]], node: int, last: int, others: Sequence[tuple[int, int, int, int]]
) -> bool:
    read = {(source, index) for source, index in nodes[node]["inputs"]}
    is_in_place = any((other[0], other[1]) in read for other in others)
    is_added = last < len(nodes) and nodes[last]["op"] == SUM and any(other[2] == last for other in others)
    return is_in_place or is_added
