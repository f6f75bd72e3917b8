"""A program as tables of numbers."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tofu import _core

Column = npt.NDArray[np.int64]


class NodeKind(enum.IntEnum):
    """The kind of a node in a program."""

    VARIABLE = 0  # one worker's shard of a tensor that no operator produces
    OPERATOR = 1  # one worker's copy of an operator
    FETCH = 2  # assembles a region on one worker from entries on several workers


@dataclass(frozen=True, eq=False)
class ProgramTables:
    """Tables of nodes, their output arrays (*entries*), and regions that are copied between workers.

    A copy, or *fetch*, writes *pieces* and reads *sources*. `csrc/core/program/program_tables.h` explains the columns.
    Rows refer to each other by number. Missing dimensions have length 1.
    """

    workers: int
    node_kind: Column
    node_id: Column
    node_worker: Column
    node_phase: Column
    node_fill: npt.NDArray[np.float64]
    entry_node: Column
    entry_rank: Column
    entry_shape: Column
    entry_begin: Column
    read_node: Column
    read_entry: Column
    piece_node: Column
    piece_begin: Column
    piece_extent: Column
    source_piece: Column
    source_read: Column
    source_begin: Column
    source_along: Column
    output_entry: Column
    transit_entry: Column

    def __repr__(self) -> str:
        return f"ProgramTables({self.workers} workers, {len(self.node_kind)} nodes, {len(self.piece_node)} pieces)"

    @cached_property
    def entry_output(self) -> Column:
        """The position of each array among the outputs of its node."""
        return np.arange(len(self.entry_node)) - np.searchsorted(self.entry_node, self.entry_node)

    @cached_property
    def entry_worker(self) -> Column:
        """The worker that stores each array."""
        return np.asarray(self.node_worker[self.entry_node])

    @cached_property
    def first_entry(self) -> Column:
        """The outputs of node n have the numbers `first_entry[n]` to `first_entry[n + 1] - 1`."""
        return _find_first_rows(self.entry_node, len(self.node_kind))

    @cached_property
    def first_read(self) -> Column:
        """The reads (inputs) of node n have the numbers `first_read[n]` to `first_read[n + 1] - 1`."""
        return _find_first_rows(self.read_node, len(self.node_kind))

    @cached_property
    def first_piece(self) -> Column:
        """The regions that node n writes have the numbers `first_piece[n]` to `first_piece[n + 1] - 1`."""
        return _find_first_rows(self.piece_node, len(self.node_kind))

    @cached_property
    def first_source(self) -> Column:
        """The sources of region n have the numbers `first_source[n]` to `first_source[n + 1] - 1`."""
        return _find_first_rows(self.source_piece, len(self.piece_node))

    @cached_property
    def fetched_elements(self) -> Column:
        """The number of elements that each node fetches."""
        elements = np.concatenate(([0], np.cumsum(self.piece_extent.prod(axis=1))))
        return np.asarray(elements[self.first_piece[1:]] - elements[self.first_piece[:-1]])

    @cached_property
    def source_node(self) -> Column:
        """The number of the fetch that reads each source region."""
        return np.asarray(self.piece_node[self.source_piece])

    @cached_property
    def source_entry(self) -> Column:
        """The number of the array that contains each source region."""
        return np.asarray(self.read_entry[self.source_read])

    @cached_property
    def is_transit(self) -> npt.NDArray[np.bool_]:
        """True for each array that is an intermediate result."""
        marks = np.zeros(len(self.entry_node), bool)
        marks[self.transit_entry] = True
        return marks

    def find_entry_tensors(self, operator_outputs: Sequence[Sequence[int]]) -> Column:
        """Return the tensor of each array. `operator_outputs` lists the output tensors of each operator."""
        first_output = np.cumsum([0, *map(len, operator_outputs)])
        outputs = np.array([tensor for tensors in operator_outputs for tensor in tensors], np.int64)
        tensors: Column = self.node_id[self.entry_node]
        is_output = self.node_kind[self.entry_node] == NodeKind.OPERATOR
        tensors[is_output] = outputs[first_output[tensors[is_output]] + self.entry_output[is_output]]
        return tensors

    def count_remote_bytes(self, item_bytes: Sequence[int]) -> int:
        """Count the bytes that workers read from each other.

        `item_bytes` has the element size of each tensor.
        """
        elements = self.piece_extent.prod(axis=1)[self.source_piece]
        owner = self.entry_node[self.source_entry]
        is_remote = self.node_worker[owner] != self.node_worker[self.source_node]
        item_sizes = np.asarray(item_bytes, np.int64)[self.node_id[self.source_node[is_remote]]]
        return int((elements[is_remote] * item_sizes).sum())


def expand(begins: Column, ends: Column) -> Column:
    """Concatenate ranges: [2, 3, 7] for `begins` [2, 7] and `ends` [4, 8]."""
    counts = ends - begins
    offsets = begins - (np.cumsum(counts) - counts)
    return np.asarray(np.repeat(offsets, counts) + np.arange(counts.sum()))


def _find_first_rows(sorted_numbers: Column, count: int) -> Column:
    return np.asarray(np.searchsorted(sorted_numbers, np.arange(count + 1)))


def read_tables(code: npt.NDArray[np.int64]) -> ProgramTables:
    """Decode a program into tables. Raise ValueError if the program cannot be decoded."""
    columns: dict[str, Any] = _core.program_tables(code)
    return ProgramTables(**columns)
