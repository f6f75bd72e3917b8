"""Bytes that an execution graph transfers, counted from its fetch nodes: pieces, contexts and shapes.

This count and that of the running kernel must both equal `plan.communication_bytes`. This module imports neither the
search nor the analysis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tofu import _mxnet

Table = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ExecutionTables:
    """Nodes in topological order, and their fetches; see `csrc/nnvm/execution/execution_tables.h`.

    Entries refer to each other by position. `begin`, `extent` and `shape` have a column for each dimension of the
    fetch with the most dimensions; in missing dimensions a fetch has the one element 0.
    """

    node_names: list[str]
    group_names: list[str]
    node_group: Table
    edges: Table
    control_deps: Table
    fetch_node: Table
    fetch_type: Table
    fetch_shape: Table
    piece_fetch: Table
    piece_begin: Table
    piece_extent: Table
    source_piece: Table
    source_node: Table
    source_begin: Table
    source_along: Table
    source_shape: Table
    output_node: Table
    output_shapes: list[tuple[int, ...] | None]

    @property
    def piece_node(self) -> Table:
        """Node of the fetch that each piece belongs to."""
        node: Table = self.fetch_node[self.piece_fetch]
        return node


def read_tables(execution_symbol: Any, variable_shapes: Mapping[str, tuple[int, ...]] | None = None) -> ExecutionTables:
    """Return the tables of a graph whose variables have shapes, unless `variable_shapes` overrides them."""
    return ExecutionTables(**_mxnet.execution_tables(execution_symbol.handle.value, dict(variable_shapes or {})))


ITEM_BYTES = np.array((4, 8, 2, 1, 4, 1, 8, 1))  # by MXNet's type flag


@dataclass(frozen=True)
class FetchTraffic:
    """Bytes that all fetches of an execution graph read, from other workers and from the own worker."""

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
