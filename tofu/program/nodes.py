"""The nodes of a program as frozen values, for people and for backends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tofu.graph import Phase
from tofu.program.tables import Column, NodeKind, ProgramTables

Shape = tuple[int, ...]


class Entry(NamedTuple):
    """One output array of a node. Variables, and copies from other workers, have a single output with number 0."""

    node: int
    output: int


class PieceSource(NamedTuple):
    """A region of an input that a fetch copies to its output.

    A *fetch* is an operation that reads data of other workers. It copies the region to a region of its output, the
    *piece*. The region begins at `begin` in input number `input`. `along[d]` is the dimension of the piece that
    corresponds to dimension d of the input, or -1 if the region has length 1 there.
    """

    input: int
    begin: Shape
    along: Shape

    def extent(self, piece: Shape) -> Shape:
        """Return the shape of the region that is copied to a piece of shape `piece`."""
        return tuple(1 if d < 0 else piece[d] for d in self.along)


class Piece(NamedTuple):
    """A region [begin, begin + extent) that a fetch writes. It becomes the sum of the regions in `sources`."""

    begin: Shape
    extent: Shape
    sources: tuple[PieceSource, ...]


@dataclass(frozen=True)
class Node:
    """A node of a program: one operator, variable or fetch (copy from other workers) on one worker.

    Attributes
    ----------
    id
        The number of the operator. For a variable or a fetch, the number of the tensor.
    phase
        The phase in which the node runs. Variables have the first phase.
    shapes, begins
        The shape of each output, and where it begins in the whole tensor.
    pieces, fill
        A fetch writes the regions `pieces`, and the number `fill` everywhere else.
    """

    kind: NodeKind
    id: int
    worker: int
    phase: Phase
    shapes: tuple[Shape, ...]
    inputs: tuple[Entry, ...] = ()
    pieces: tuple[Piece, ...] = ()
    fill: float = 0.0
    begins: tuple[Shape, ...] = ()


def pick_entries(tables: ProgramTables, rows: Column) -> tuple[Entry, ...]:
    """Return the entries (output arrays of nodes) with the numbers `rows`."""
    return tuple(map(Entry, tables.entry_node[rows].tolist(), tables.entry_output[rows].tolist()))


def list_nodes(tables: ProgramTables) -> tuple[Node, ...]:
    """Return the nodes in the order in which they run."""
    count = len(tables.node_kind)
    shapes, begins = (
        _group_by_row(
            count,
            tables.entry_node.tolist(),
            [tuple(row[:rank]) for row, rank in zip(column.tolist(), tables.entry_rank.tolist(), strict=True)],
        )
        for column in (tables.entry_shape, tables.entry_begin)
    )
    inputs = _group_by_row(count, tables.read_node.tolist(), pick_entries(tables, tables.read_entry))
    pieces = _group_by_row(count, tables.piece_node.tolist(), _list_pieces(tables, shapes))
    columns = (tables.node_kind, tables.node_id, tables.node_worker, tables.node_phase, tables.node_fill)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(
        Node(NodeKind(kind), number, worker, Phase(phase), shapes[n], inputs[n], pieces[n], fill, begins[n])
        for n, (kind, number, worker, phase, fill) in enumerate(rows)
    )


def _list_pieces(tables: ProgramTables, shapes: list[tuple[Shape, ...]]) -> list[Piece]:
    ranks = [len(shapes[node][0]) for node in tables.piece_node.tolist()]
    first_read = tables.read_node.searchsorted(tables.source_node)
    input_numbers = (tables.source_read - first_read).tolist()
    entry_ranks = tables.entry_rank[tables.source_entry].tolist()
    begins, alongs = tables.source_begin.tolist(), tables.source_along.tolist()
    piece_sources = [
        PieceSource(number, tuple(begin[:rank]), tuple(along[:rank]))
        for number, begin, along, rank in zip(input_numbers, begins, alongs, entry_ranks, strict=True)
    ]
    sources = _group_by_row(len(ranks), tables.source_piece.tolist(), piece_sources)
    boxes = zip(ranks, tables.piece_begin.tolist(), tables.piece_extent.tolist(), sources, strict=True)
    return [Piece(tuple(begin[:rank]), tuple(extent[:rank]), reads) for rank, begin, extent, reads in boxes]


def _group_by_row(row_count: int, rows: Iterable[int], values: Iterable[Any]) -> list[tuple[Any, ...]]:
    values_by_row: list[list[Any]] = [[] for _ in range(row_count)]
    for row, value in zip(rows, values, strict=True):
        values_by_row[row].append(value)
    return [tuple(values) for values in values_by_row]
