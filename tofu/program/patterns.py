"""Read the patterns of transfers from the tables of a program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tofu.program.lockstep import Box, Pattern, Read, TransferPiece
from tofu.program.program import Program
from tofu.program.tables import Column, expand


class PieceColumns(NamedTuple):
    """Pieces of a transfer and their sources (the regions that they read), as arrays with a row for each.

    Attributes
    ----------
    reader, rank, begin, extent
        For each piece, the worker that reads it, and its box in the reader's array.
    source_count
        For each piece, its number of sources. The sources of a piece follow each other.
    source_input, source_owner, source_rank, source_begin, source_along
        For each source, the transfer's input to which it belongs, the worker that stores it, and the region of the
        worker's array (`PieceSource`).
    """

    reader: Column
    rank: Column
    begin: Column
    extent: Column
    source_count: Column
    source_input: Column
    source_owner: Column
    source_rank: Column
    source_begin: Column
    source_along: Column


@dataclass
class _Rows:
    """Rows of the table of pieces, with their readers and what is added to their positions.

    Row `~entry` stands for a piece that reads the whole entry.
    """

    rank: int
    rows: list[Column] = field(default_factory=list)
    readers: list[Column] = field(default_factory=list)
    offsets: list[Column] = field(default_factory=list)

    def add(self, rows: Column, reader: Column | int, offset: Column | int = 0) -> None:
        self.rows.append(rows)
        self.readers.append(np.broadcast_to(reader, rows.shape))
        self.offsets.append(np.broadcast_to(offset, (len(rows), self.rank)))


class PatternReader:
    """Reads the pieces of transfers from the tables of a program, and makes each distinct `Pattern` once."""

    def __init__(self, program: Program) -> None:
        self._tables, self._entry_tensor = program.tables, program.entry_tensor
        self._is_transit = self._tables.mark_entries(self._tables.transit_entry)
        self._pieces_by_bytes: dict[tuple[bytes, ...], tuple[TransferPiece, ...]] = {}
        self._pattern_by_key: dict[Hashable, Pattern] = {}

    def share_pattern(self, pieces: PieceColumns, copies: PieceColumns, fill: float, reducer: str) -> Pattern:
        """Return the pattern with these pieces and copies. Equal patterns are one object."""
        shared_pieces, shared_copies = self._share_pieces(pieces), self._share_pieces(copies)
        key = id(shared_pieces), id(shared_copies), fill, reducer
        if key not in self._pattern_by_key:
            self._pattern_by_key[key] = Pattern(shared_pieces, shared_copies, fill, reducer)
        return self._pattern_by_key[key]

    def _share_pieces(self, pieces: PieceColumns) -> tuple[TransferPiece, ...]:
        key = tuple(column.tobytes() for column in pieces)
        if key not in self._pieces_by_bytes:
            self._pieces_by_bytes[key] = _list_pieces(pieces)
        return self._pieces_by_bytes[key]

    def list_pieces(
        self,
        tensor: int,
        entries: Column,
        boxes: Sequence[Box],
        is_new_fetch: Callable[[Column], npt.NDArray[np.bool_]],
    ) -> tuple[PieceColumns, PieceColumns, Column]:
        """Return the pieces and the copies (`Pattern`) by which workers assemble the entries of a value.

        The last result has the entry that each source of the pieces reads. The caller sets `source_input`.

        `boxes` has the region of the value on each worker. An entry is read as a whole unless `is_new_fetch`.
        """
        tables, rank = self._tables, self._tables.entry_shape.shape[1]
        present = entries[entries >= 0]
        fetches = np.unique(present[is_new_fetch(present)])
        pieces, copies, owners, source_offsets = _Rows(rank), _Rows(rank), list[int](), list[Column]()
        partial_sums = self._find_partial_sums(tensor, entries, fetches, is_new_fetch)
        assembled = set[int]()
        is_fetch = set(fetches.tolist())
        for worker, entry in enumerate(entries.tolist()):
            if entry < 0 or entry in assembled:
                continue
            if entry not in is_fetch:
                pieces.add(np.array([~entry]), worker)
                continue
            assembled.add(entry)
            rows, reader = self._list_rows(entry), tables.entry_worker[entry]
            if not partial_sums:
                pieces.add(rows, reader)
                continue
            for row in rows.tolist():
                partial_sum = partial_sums.get(row)
                if partial_sum is None:
                    pieces.add(np.array([row]), reader)
                    continue
                owner = int(tables.entry_worker[partial_sum])
                box_begin = [begin for begin, _ in boxes[owner]]
                offset = np.zeros(rank, np.int64)
                offset[: len(box_begin)] = tables.entry_begin[partial_sum, : len(box_begin)] - box_begin
                if partial_sum not in assembled:
                    assembled.add(partial_sum)
                    pieces.add(self._list_rows(partial_sum), owner, offset)
                if owner != worker:
                    copies.add(np.array([row]), worker)
                    source_offsets.append(offset[None])
                    owners.append(owner)
        piece_columns, source_entries = self._read_columns(pieces)
        copy_columns, _ = self._read_columns(copies)
        source_begin = copy_columns.source_begin + _join(source_offsets, copy_columns.source_begin)
        copy_columns = copy_columns._replace(source_begin=source_begin, source_owner=np.array(owners, np.int64))
        return piece_columns, copy_columns, source_entries

    def _list_rows(self, fetch: int) -> Column:
        node = self._tables.entry_node[fetch]
        return np.arange(self._tables.first_piece[node], self._tables.first_piece[node + 1])

    def _find_partial_sums(
        self, tensor: int, entries: Column, fetches: Column, is_new_fetch: Callable[[Column], npt.NDArray[np.bool_]]
    ) -> dict[int, int]:
        """Return, for each piece that copies a partial sum of the value, the entry with this sum."""
        tables = self._tables
        nodes = tables.entry_node[fetches]
        rows = expand(tables.first_piece[nodes], tables.first_piece[nodes + 1])
        first = tables.first_source[rows]
        is_single = tables.first_source[rows + 1] - first == 1
        rows, sources = rows[is_single], tables.source_entry[first[is_single]]
        is_candidate = is_new_fetch(sources)
        if not is_candidate.any():
            return {}

        def is_partial_sum(entry: int) -> bool:
            node = tables.entry_node[entry]
            if tables.node_id[node] != tensor or not is_new_fetch(np.array([entry]))[0]:
                return False
            if not self._is_transit[entry] and entries[tables.node_worker[node]] != entry:
                return False
            reads = tables.read_entry[tables.first_read[node] : tables.first_read[node + 1]]
            return (  # without reads, a region outside the tensor is filled with a number
                reads.size > 0
                and bool((self._entry_tensor[reads] == tensor).all())
                and not any(map(is_partial_sum, reads[is_new_fetch(reads)].tolist()))
            )

        candidates = sources[is_candidate].tolist()
        is_partial = {entry: is_partial_sum(entry) for entry in dict.fromkeys(candidates)}
        return {
            row: entry for row, entry in zip(rows[is_candidate].tolist(), candidates, strict=True) if is_partial[entry]
        }

    def _read_columns(self, listed: _Rows) -> tuple[PieceColumns, Column]:
        tables, width = self._tables, listed.rank
        rows = _join(listed.rows, np.zeros(0, np.int64))
        is_whole = rows < 0
        stored, entries = rows[~is_whole], ~rows[is_whole]
        rank, first, last = np.empty_like(rows), rows.copy(), rows + 1
        begin, extent = (np.zeros((len(rows), width), np.int64) for _ in range(2))
        rank[~is_whole] = tables.entry_rank[tables.first_entry[tables.piece_node[stored]]]
        begin[~is_whole], extent[~is_whole] = tables.piece_begin[stored], tables.piece_extent[stored]
        first[~is_whole], last[~is_whole] = tables.first_source[stored], tables.first_source[stored + 1]
        rank[is_whole], extent[is_whole] = tables.entry_rank[entries], tables.entry_shape[entries]
        sources = expand(first, last)
        is_whole = sources < 0
        stored = sources[~is_whole]
        source_entry = ~sources
        source_begin, source_along = (
            np.zeros((len(sources), width), np.int64),
            np.tile(np.arange(width), (len(sources), 1)),
        )
        source_entry[~is_whole] = tables.source_entry[stored]
        source_begin[~is_whole], source_along[~is_whole] = tables.source_begin[stored], tables.source_along[stored]
        columns = PieceColumns(
            _join(listed.readers, rows),
            rank,
            begin + _join(listed.offsets, begin),
            extent,
            last - first,
            np.zeros_like(source_entry),
            tables.entry_worker[source_entry],
            tables.entry_rank[source_entry],
            source_begin,
            source_along,
        )
        return columns, source_entry


def _join(arrays: Sequence[Column], empty: Column) -> Column:
    return np.concatenate(arrays) if arrays else empty


def _list_pieces(columns: PieceColumns) -> tuple[TransferPiece, ...]:
    source_columns = columns.source_input, columns.source_owner, columns.source_rank, columns.source_begin
    reads = [
        Read(input_, owner, tuple(begin[:rank]), tuple(along[:rank]))
        for input_, owner, rank, begin, along in zip(
            *(column.tolist() for column in (*source_columns, columns.source_along)), strict=True
        )
    ]
    ends = np.cumsum(columns.source_count).tolist()
    piece_columns = columns.reader, columns.rank, columns.begin, columns.extent, columns.source_count
    return tuple(
        TransferPiece(reader, tuple(begin[:rank]), tuple(extent[:rank]), tuple(reads[end - count : end]))
        for end, reader, rank, begin, extent, count in zip(
            ends, *(column.tolist() for column in piece_columns), strict=True
        )
    )
