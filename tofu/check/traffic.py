"""Bytes that an execution graph moves, counted from its fetch nodes: pieces, contexts and shapes, nothing else.

The first of the two counts that must equal `plan.communication_bytes` exactly; the other is kept by the running kernel.
This module imports neither the search nor the analysis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tofu import _mxnet

ITEM_BYTES = (4, 8, 2, 1, 4, 1, 8, 1)  # by MXNet's type flag


@dataclass(frozen=True)
class FetchTraffic:
    """Bytes read by all fetches of one execution graph: out of other workers' memory, and out of the worker's own."""

    remote_bytes: int
    local_bytes: int
    fetches: int
    remote_bytes_by_worker: Mapping[int, int]


def count_traffic(execution_symbol: Any) -> FetchTraffic:
    """Count the bytes that one run of `execution_symbol` reads through its fetches."""
    remote: dict[int, int] = {}
    local = 0
    fetches = _mxnet.fetches(execution_symbol.handle.value)
    for fetch in fetches:
        item_bytes = ITEM_BYTES[fetch["dtype"]]
        for _, extent, sources in fetch["pieces"]:
            piece_bytes = prod(extent) * item_bytes
            for source, _ in sources:
                source_group = fetch["inputs"][source][2]
                if source_group == fetch["group"]:
                    local += piece_bytes
                else:
                    remote[fetch["worker"]] = remote.get(fetch["worker"], 0) + piece_bytes
    return FetchTraffic(sum(remote.values()), local, len(fetches), remote)
