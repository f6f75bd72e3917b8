"""The checker of emitted graphs: run on every graph in the tests, and under TOFU_CHECK=1.

Rules: regions lie inside their sources; each output cell is written once (cells of no piece are filled); every edge between
workers enters a fetch; every read is ordered after its write by a data dependency; there is no cycle; outputs have the sizes of
the plan's shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tofu.check.tables import ExecutionTables, Table, read_tables
from tofu.errors import InternalError


def check_execution(
    execution_symbol: Any, output_shapes: Sequence[tuple[int, ...]], variable_shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise InternalError with every rule that the execution graph breaks.

    Parameters
    ----------
    execution_symbol
        The partitioned symbol.
    output_shapes
        The shapes that the plan predicts for its outputs.
    variable_shapes
        Name -> shape of each shard that feeds it.
    """
    tables = read_tables(execution_symbol, variable_shapes)
    rules = (_check_pieces, _check_sources, _check_overlaps, _check_groups, _check_order)
    problems = [problem for rule in rules for problem in rule(tables)]
    problems += _check_outputs(tables, output_shapes)
    if problems:
        shown = "\n".join(f"  - {problem}" for problem in problems[:20])
        raise InternalError(f"The execution graph breaks {len(problems)} rules:\n{shown}")


def _check_pieces(tables: ExecutionTables) -> Iterator[str]:
    """Pieces are boxes inside their region."""
    begin, end = tables.piece_begin, tables.piece_begin + tables.piece_extent
    shapes = tables.fetch_shape[tables.piece_fetch]
    for piece in _where_any((begin < 0) | (begin >= end) | (end > shapes)):
        name = tables.node_names[tables.piece_node[piece]]
        region = tuple(shapes[piece].tolist())
        yield f"{name}: the piece {_box(begin[piece], end[piece])} is empty or leaves the region of shape {region}"


def _check_sources(tables: ExecutionTables) -> Iterator[str]:
    """Sources lie inside the entries that they are read from, whose shapes are known."""
    begin, end = tables.source_begin, tables.source_begin + tables.piece_extent[tables.source_piece]
    for source in _where_any((begin < 0) | (end > tables.source_shape)):
        name = tables.node_names[tables.piece_node[tables.source_piece[source]]]
        producer = tables.node_names[tables.source_node[source]]
        shape = tuple(tables.source_shape[source].tolist())
        yield f"{name}: it reads {_box(begin[source], end[source])} of {producer}, whose shape is {shape}"


def _check_overlaps(tables: ExecutionTables) -> Iterator[str]:
    """No cell is written twice. The pieces of a fetch stand side by side: each is compared with the next, the next but one, ..."""
    begin, end = tables.piece_begin, tables.piece_begin + tables.piece_extent
    for distance in range(1, len(begin)):
        is_pair = tables.piece_fetch[distance:] == tables.piece_fetch[:-distance]
        if not is_pair.any():
            return
        meets = np.maximum(begin[distance:], begin[:-distance]) < np.minimum(end[distance:], end[:-distance])
        for one in np.flatnonzero(is_pair & meets.all(axis=1)):
            boxes = [_box(begin[piece], end[piece]) for piece in (one, one + distance)]
            name = tables.node_names[tables.piece_node[one]]
            yield f"{name}: cells are written twice, by the pieces {boxes[0]} and {boxes[1]}"


def _check_groups(tables: ExecutionTables) -> Iterator[str]:
    """Every node belongs to a worker, and workers meet in fetches alone."""
    for node in np.flatnonzero(tables.node_group < 0):
        yield f"{tables.node_names[node]} belongs to no worker"
    is_fetch = np.zeros(len(tables.node_names), bool)
    is_fetch[tables.fetch_node] = True
    reader, source = tables.edges.T
    for edge in np.flatnonzero(~is_fetch[reader] & (tables.node_group[reader] != tables.node_group[source])):
        name, other = (tables.node_names[node] for node in tables.edges[edge])
        yield f"{name} ({_group(tables, reader[edge])}) reads {other} of another worker without a fetch"


def _check_order(tables: ExecutionTables) -> Iterator[str]:
    """Each node reads, and waits for, what stands before it."""
    for reader, source in tables.edges[tables.edges[:, 1] >= tables.edges[:, 0]]:
        yield f"{tables.node_names[reader]} reads {tables.node_names[source]}, which runs after it"
    for node, other in tables.control_deps[tables.control_deps[:, 1] >= tables.control_deps[:, 0]]:
        yield f"{tables.node_names[node]} waits for {tables.node_names[other]}, which runs after it"


def _check_outputs(tables: ExecutionTables, output_shapes: Sequence[tuple[int, ...]]) -> Iterator[str]:
    """Shapes inferred by MXNet through the whole graph are those that the plan predicts."""
    # The outputs after these keep nodes running that nobody reads; the plan says nothing of them.
    for node, found, expected in zip(tables.output_node, tables.output_shapes, output_shapes, strict=False):
        if found != tuple(expected):
            name = tables.node_names[node]
            yield f"{name}: an output has shape {found}, the plan says {expected} ({prod(expected)} elements)"


def _where_any(is_wrong: npt.NDArray[np.bool_]) -> Table:
    """The rows in which some dimension is wrong."""
    return np.flatnonzero(is_wrong.any(axis=1))


def _box(begin: Table, end: Table) -> tuple[tuple[int, int], ...]:
    return tuple(zip(begin.tolist(), end.tolist(), strict=True))


def _group(tables: ExecutionTables, node: int) -> str:
    group = tables.node_group[node]
    return tables.group_names[group] if group >= 0 else "no worker"
