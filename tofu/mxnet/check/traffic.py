"""Count the bytes that an execution graph transfers between workers.

Only fetches transfer bytes: nodes that read shards of other workers. The sum must equal the plan's
`communication_bytes`. This module shares no code with the planner, so that it can find the planner's mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from tofu import _mxnet


def read_tables(execution_symbol: Any, variable_shapes: Mapping[str, tuple[int, ...]] | None = None) -> SimpleNamespace:
    """Return an execution graph as tables of numbers (`csrc/nnvm/execution/execution_tables.h`).

    `variable_shapes` has the shapes of variables, if the symbol does not have them.
    """
    return SimpleNamespace(**_mxnet.execution_tables(execution_symbol.handle.value, dict(variable_shapes or {})))


ITEM_BYTES = np.array((4, 8, 2, 1, 4, 1, 8, 1))  # bytes of an element, by MXNet's type code


@dataclass(frozen=True)
class FetchTraffic:
    """The bytes that fetches read from other workers (`remote_bytes`) and from their own worker (`local_bytes`)."""

    remote_bytes: int
    local_bytes: int
    fetches: int


def count_traffic(execution_symbol: Any) -> FetchTraffic:
    """Count the bytes that fetches read in one run of an execution graph."""
    tables = read_tables(execution_symbol)
    piece_bytes = tables.piece_extent.prod(axis=1) * ITEM_BYTES[tables.fetch_type[tables.piece_fetch]]
    source_bytes = piece_bytes[tables.source_piece]
    reader = tables.fetch_node[tables.piece_fetch[tables.source_piece]]
    is_remote = tables.node_group[reader] != tables.node_group[tables.source_node]
    remote, local = (int(source_bytes[which].sum()) for which in (is_remote, ~is_remote))
    return FetchTraffic(remote, local, len(tables.fetch_node))
