"""An execution graph as the checks see it: tables read back from its nodes, by no code that planned or emitted it."""

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

    Everything is referred to by its position. `begin`, `extent` and `shape` have a column for each dimension of the fetch that has the
    most; in dimensions that a fetch lacks its boxes are the one cell 0.
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
        """The fetch that each piece belongs to, as a node."""
        node: Table = self.fetch_node[self.piece_fetch]
        return node


def read_tables(execution_symbol: Any, variable_shapes: Mapping[str, tuple[int, ...]] | None = None) -> ExecutionTables:
    """The tables of a graph whose variables carry their shapes; `variable_shapes` goes first where it is given."""
    return ExecutionTables(**_mxnet.execution_tables(execution_symbol.handle.value, dict(variable_shapes or {})))
