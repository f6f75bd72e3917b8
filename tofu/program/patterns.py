"""Read the patterns of transfers from the tables of a program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tofu.program.lockstep import Box, Pattern, Read, TransferPiece
from tofu.program.program import Program
from tofu.program.tables import Column, expand

Predicate: TypeAlias = "Callable[[Column], npt.NDArray[np.bool_]]"
"""A function that returns, for each entry, True or False."""


class PieceColumns(NamedTuple):
    """Regions that workers write in a transfer (*pieces*), and the regions that each piece is read from (*sources*).

    Attributes
    ----------
    reader, rank, begin, extent
        For each piece: the worker, and the number of dimensions, begin and lengths of the region in its array.
    source_input, source_owner, source_rank, source_begin, source_along
        For each source: the number of the input, the worker that stores it, and the fields of a `PieceSource`.
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
    # Positions of pieces in the program's table, and the worker that receives each piece. Position `~entry` is a copy
    # of the whole array `entry`. The offsets shift the pieces and their sources.
    rank: int
    rows: list[Column] = field(default_factory=list)
    readers: list[Column] = field(default_factory=list)
    begin_offsets: list[Column] = field(default_factory=list)
    source_offsets: list[Column] = field(default_factory=list)

    def add(self, rows: Column, reader: int, begin_offset: Column | int = 0, source_offset: Column | int = 0) -> None:
        self.rows.append(rows)
        self.readers.append(np.full(len(rows), reader))
        self.begin_offsets.append(np.broadcast_to(begin_offset, (len(rows), self.rank)))
        self.source_offsets.append(np.broadcast_to(source_offset, (len(rows), self.rank)))


class PatternReader:
    """Reads the transfers of a program from its tables. Equal transfers share one `Pattern`."""

    def __init__(self, program: Program) -> None:
        self._tables, self._entry_tensor, self._readers = program.tables, program.entry_tensor, program.readers
        self._pieces_by_bytes: dict[tuple[bytes, ...], tuple[TransferPiece, ...]] = {}
        self._pattern_by_key: dict[Hashable, Pattern] = {}

    def share_pattern(self, pieces: PieceColumns, copies: PieceColumns, fill: float, reducer: str) -> Pattern:
        """Build a `Pattern`, the regions that workers read in a transfer. Equal arguments give the same object."""
        shared_pieces, shared_copies = self._share_pieces(pieces), self._share_pieces(copies)
        key = id(shared_pieces), id(shared_copies), repr(fill), reducer  # -0.0 is not 0.0
        if key not in self._pattern_by_key:
            self._pattern_by_key[key] = Pattern(shared_pieces, shared_copies, fill, reducer, self._readers)
        return self._pattern_by_key[key]

    def _share_pieces(self, pieces: PieceColumns) -> tuple[TransferPiece, ...]:
        key = tuple(column.tobytes() for column in pieces)
        if key not in self._pieces_by_bytes:
            self._pieces_by_bytes[key] = _list_pieces(pieces)
        return self._pieces_by_bytes[key]

    def list_pieces(
        self, tensor: int, entries: Column, boxes: Sequence[Box], is_new_fetch: Predicate
    ) -> tuple[PieceColumns, PieceColumns, Column]:
        """Return `pieces` and `copies` for a `Pattern`, and the array from which each region of `pieces` is read.

        Parameters
        ----------
        tensor, entries, boxes
            The tensor, and each worker's array (entry) and region.
        is_new_fetch
            Function that returns True for results of new transfers. Other arrays are read whole.
        """
        rank = self._tables.entry_shape.shape[1]
        pieces, copies, assembled = _Rows(rank), _Rows(rank), set[int]()
        fetches = entries[entries >= 0]
        fetches = fetches[is_new_fetch(fetches)]
        partial_sums = self._find_partial_sums(tensor, entries, fetches, is_new_fetch)
        new_fetches = set(fetches.tolist())
        for worker, entry in enumerate(entries.tolist()):
            if entry < 0 or entry in assembled:
                continue
            if entry not in new_fetches:
                pieces.add(np.array([~entry]), worker)
                continue
            assembled.add(entry)
            reader, rows = int(self._tables.entry_worker[entry]), self._list_rows(entry)
            for run in _split_at(rows, partial_sums):
                partial_sum = partial_sums.get(int(run[0])) if partial_sums else None
                if partial_sum is None:
                    pieces.add(run, reader)
                    continue
                owner = int(self._tables.entry_worker[partial_sum])
                offset = self._find_offset(partial_sum, boxes[owner])
                if partial_sum not in assembled:
                    assembled.add(partial_sum)
                    pieces.add(self._list_rows(partial_sum), owner, begin_offset=offset)
                if owner != worker:
                    copies.add(run, worker, source_offset=offset)
        piece_columns, source_entries = self._read_columns(pieces)
        copy_columns, _ = self._read_columns(copies)
        return piece_columns, copy_columns, source_entries

    def _find_offset(self, entry: int, box: Box) -> Column:
        offset: Column = self._tables.entry_begin[entry].copy()
        offset[: len(box)] -= np.array([begin for begin, _ in box], np.int64)
        return offset

    def _list_rows(self, fetch: int) -> Column:
        node = self._tables.entry_node[fetch]
        return np.arange(self._tables.first_piece[node], self._tables.first_piece[node + 1])

    def _find_partial_sums(
        self, tensor: int, entries: Column, fetches: Column, is_new_fetch: Predicate
    ) -> dict[int, int]:
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
            if not tables.is_transit[entry] and entries[tables.node_worker[node]] != entry:
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
        source_begin = np.zeros((len(sources), width), np.int64)
        source_along = np.tile(np.arange(width), (len(sources), 1))
        source_entry[~is_whole] = tables.source_entry[stored]
        source_begin[~is_whole], source_along[~is_whole] = tables.source_begin[stored], tables.source_along[stored]
        columns = PieceColumns(
            _join(listed.readers, rows),
            rank,
            begin + _join(listed.begin_offsets, begin),
            extent,
            last - first,
            np.zeros_like(source_entry),
            tables.entry_worker[source_entry],
            tables.entry_rank[source_entry],
            source_begin + np.repeat(_join(listed.source_offsets, begin), last - first, axis=0),
            source_along,
        )
        return columns, source_entry


def _split_at(rows: Column, separate: Collection[int]) -> Iterator[Column]:
    if not separate:
        yield rows
        return
    is_separate = np.isin(rows, list(separate))
    begins = np.flatnonzero(is_separate[1:] | is_separate[:-1]) + 1
    yield from (run for run in np.split(rows, begins) if run.size)


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
