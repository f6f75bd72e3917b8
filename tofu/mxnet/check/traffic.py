"""Bytes that an execution graph moves, counted from its fetch nodes: pieces, contexts and shapes, nothing else.

The first of the two counts that must equal `plan.communication_bytes` exactly; the other is kept by the running kernel.
This module imports neither the search nor the analysis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tofu.mxnet.check.tables import read_tables

ITEM_BYTES = np.array((4, 8, 2, 1, 4, 1, 8, 1))  # by MXNet's type flag


@dataclass(frozen=True)
class FetchTraffic:
    """Bytes read by all fetches of one execution graph: out of other workers' memory, and out of the worker's own."""

    remote_bytes: int
    local_bytes: int
    fetches: int


def count_traffic(execution_symbol: Any) -> FetchTraffic:
    """Count the bytes that one run of `execution_symbol` reads through its fetches."""
    tables = read_tables(execution_symbol)
    piece_bytes = tables.piece_extent.prod(axis=1) * ITEM_BYTES[tables.fetch_type[tables.piece_fetch]]
    source_bytes = piece_bytes[tables.source_piece]
    reader = tables.piece_node[tables.source_piece]
    is_remote = tables.node_group[reader] != tables.node_group[tables.source_node]
    remote, local = (int(source_bytes[which].sum()) for which in (is_remote, ~is_remote))
    return FetchTraffic(remote, local, len(tables.fetch_node))
