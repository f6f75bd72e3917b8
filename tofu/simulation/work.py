"""Count the work of each node of a program: arithmetic operations, and bytes that are read and written.

A node is one kernel or fetch (a copy from other workers) on one worker. Operations are counted from descriptions, for
the shapes of the worker's part. A *column* is an array with one item for each node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tofu.analysis import OperatorAccess, find_signature
from tofu.graph import Graph
from tofu.program import NodeKind, PlannedProgram
from tofu.program.parts import find_parts
from tofu.program.tables import ProgramTables
from tofu.simulation.kernels import FETCH, THIN, UPDATE, Rates, name_kind

Floats = npt.NDArray[np.float64]
Column = npt.NDArray[np.int64]


class Contraction(NamedTuple):
    """A sum of products on one worker, such as a matrix product.

    The result has `elements` elements. Each is a sum of `depth` products.
    """

    operations: int
    elements: int
    depth: int


@dataclass(frozen=True)
class Computed:
    """Arithmetic of an operator on one worker: contractions (sums of products), and the number of other operations.

    `is_thin` is True for products such as a matrix times a vector.
    """

    contractions: tuple[Contraction, ...] = ()
    other: int = 0
    is_thin: bool = False

    @property
    def contracted(self) -> int:
        """The operations of all contractions."""
        return sum(contraction.operations for contraction in self.contractions)


@dataclass(frozen=True)
class Work:
    """The work of every node of a program, followed by the work of the optimizer's weight updates.

    Attributes
    ----------
    kinds, kind
        The kind of node n is `kinds[kind[n]]`: "fetch", "update", or the name of its kernel.
    computed, arithmetic
        The arithmetic of node n is `computed[arithmetic[n]]`.
    size
        Bytes that the node reads and writes.
    rows
        The number of contiguous blocks of memory that a fetch reads.
    added
        The bytes of partial results that a fetch adds.
    times
        Number of times that the node runs in a step.
    is_computed_elsewhere
        True if the node is fused with the kernels that read its result.
    """

    kinds: tuple[str, ...]
    kind: Column
    computed: tuple[Computed, ...]
    arithmetic: Column
    dtype: npt.NDArray[np.object_]
    size: Column
    rows: Column
    added: Column
    times: Column
    is_computed_elsewhere: npt.NDArray[np.bool_]

    def take_seconds(self, rates: Rates, workers: int) -> Floats:
        """Return the seconds of each node if no other node runs at the same time."""
        call = np.where(self.is_computed_elsewhere, 0.0, rates.call if workers == 1 else rates.call_of_several)
        contracted, other = (
            self._look_up([getattr(computed, name) for computed in self.computed]) for name in ("contracted", "other")
        )
        roofline = call + np.maximum(self._find_arithmetic_seconds(rates), self.size / rates.memory)
        seconds = np.where(contracted + other + self.size > 0, roofline, 0.0)
        far_bytes = np.maximum(self.size - rates.cache, 0)
        for kind, name in enumerate(self.kinds):
            if (measured_rates := rates.measured.get(name)) is not None:
                nodes = self.kind == kind
                seconds[nodes] = (
                    measured_rates.call
                    + (0 if name == UPDATE else call[nodes])
                    + measured_rates.contracted * (self.added if name == FETCH else contracted)[nodes]
                    + measured_rates.other * (self.rows if name == FETCH else other)[nodes]
                    + measured_rates.byte * self.size[nodes]
                    + measured_rates.far_byte * far_bytes[nodes]
                )
        return np.asarray(seconds * self.times, np.float64)

    def _look_up(self, numbers: list[float]) -> Floats:
        return np.asarray(np.asarray(numbers, np.float64)[self.arithmetic])

    def _find_arithmetic_seconds(self, rates: Rates) -> Floats:
        seconds = np.zeros(len(self.kind))
        for dtype in set(self.dtype.tolist()):
            seconds_by_arithmetic = [
                sum(rates.contract(*contraction, dtype) for contraction in computed.contractions)
                + rates.compute(computed.other, dtype)
                for computed in self.computed
            ]
            nodes = self.dtype == dtype
            seconds[nodes] = self._look_up(seconds_by_arithmetic)[nodes]
        return seconds


def measure_work(program: PlannedProgram, states: int) -> Work:
    """Count the work of a program's nodes, and of the weight updates by an optimizer with `states` arrays for each weight."""
    tables, tensors = program.tables, program.graph.tensors
    is_operator = tables.node_kind == NodeKind.OPERATOR
    operator_work = _OperatorWork(program)
    for node in np.flatnonzero(is_operator).tolist():
        operator_work.add(node, int(tables.node_id[node]), int(tables.node_worker[node]))
    kinds, kind = operator_work.list_kinds(tables.node_kind == NodeKind.FETCH)
    sources = count_sources(program)
    size, is_computed_elsewhere = _count_bytes(program, sources)
    rows, added = (
        np.bincount(sources.node, column, len(size)).astype(np.int64) for column in (sources.rows, sources.added)
    )
    first_entry = np.searchsorted(tables.entry_node, np.arange(len(size)))
    tensor = program.entry_tensor[np.minimum(first_entry, len(program.entry_tensor) - 1)]
    dtype = np.array([t.dtype for t in tensors], object)[tensor]
    fetch_times = np.array([t.times for t in tensors], np.int64)[tensor]
    operator_times = np.array([t.times * t.addends for t in tensors], np.int64)[tensor]
    times = np.where(is_operator, operator_times, fetch_times)
    arithmetic = tuple(operator_work.computed), operator_work.arithmetic
    work = Work(kinds, kind, *arithmetic, dtype, size, rows, added, times, is_computed_elsewhere)
    return _add_updates(work, program, states)


def _count_bytes(program: PlannedProgram, sources: Sources) -> tuple[Column, npt.NDArray[np.bool_]]:
    tables, entry_bytes, count = program.tables, program.entry_bytes, len(program.tables.node_kind)
    written = np.bincount(tables.entry_node, entry_bytes, count)
    read = np.bincount(tables.read_node, entry_bytes[tables.read_entry], count)
    fetched = np.bincount(sources.node, sources.size, count)
    size = (written + np.where(tables.node_kind == NodeKind.FETCH, fetched, read)).astype(np.int64)
    size[tables.node_kind == NodeKind.VARIABLE] = 0
    if program.kernel_bytes is None or not program.graph.operators:
        return size, np.zeros(count, bool)
    is_operator = tables.node_kind == NodeKind.OPERATOR
    operators = range(len(program.graph.operators))
    kernel_bytes = np.array([program.kernel_bytes.get(number, -1) for number in operators], np.int64)
    node_bytes = kernel_bytes[np.where(is_operator, tables.node_id, 0)]
    return np.where(is_operator, np.maximum(node_bytes, 0), size), is_operator & (node_bytes < 0)


def _add_updates(work: Work, program: PlannedProgram, states: int) -> Work:
    updates = list_updates(program)
    if not updates:
        return work
    element_counts = [prod(update.shape) for update in updates]
    tensors = [program.graph.tensors[update.parameter] for update in updates]
    sizes = [
        (3 + 2 * states) * count * tensor.item_bytes for count, tensor in zip(element_counts, tensors, strict=True)
    ]
    arithmetics = {count: Computed(other=(2 + 3 * states) * count) for count in element_counts}
    arithmetic_by_count = {count: len(work.computed) + n for n, count in enumerate(arithmetics)}
    ones = np.ones(len(updates), np.int64)
    return Work(
        (*work.kinds, UPDATE),
        np.concatenate([work.kind, ones * len(work.kinds)]),
        (*work.computed, *arithmetics.values()),
        np.concatenate([work.arithmetic, [arithmetic_by_count[count] for count in element_counts]]),
        np.concatenate([work.dtype, np.array([tensor.dtype for tensor in tensors], object)]),
        np.concatenate([work.size, np.array(sizes, np.int64)]),
        np.concatenate([work.rows, 0 * ones]),
        np.concatenate([work.added, 0 * ones]),
        np.concatenate([work.times, ones]),
        np.concatenate([work.is_computed_elsewhere, np.zeros(len(updates), bool)]),
    )


class Update(NamedTuple):
    """The update of one shard of a parameter.

    `entry` is the position of the gradient's shard in the program's table of arrays.
    """

    parameter: int
    worker: int
    entry: int
    shape: tuple[int, ...]


def list_updates(program: PlannedProgram) -> tuple[Update, ...]:
    """List the updates that the optimizer runs after the step. Each updates one shard of a parameter."""
    graph, tables = program.graph, program.tables
    outputs = [output.tensor for output in program.outputs]
    output_by_gradient = {outputs[position]: position for position in range(program.n_model_outputs, len(outputs))}
    updates = []
    for parameter in sorted(graph.updated):
        position = output_by_gradient.get(graph.gradients[parameter])
        if position is not None:
            entries = tables.output_entry[position * program.workers : (position + 1) * program.workers].tolist()
            for worker, entry in enumerate(entries):
                shape = tables.entry_shape[entry][: tables.entry_rank[entry]]
                updates.append(Update(parameter, worker, entry, tuple(shape.tolist())))
    return tuple(updates)


class Sources(NamedTuple):
    """The blocks of elements that fetches (copies from other workers) read, as a table.

    `node` is the fetch, and `owner` is the worker that stores the block. `size` is the block's bytes. In memory, the
    block consists of `rows` contiguous parts. `added` is `size` if the fetch adds the block to another block, else 0.
    """

    node: Column
    owner: Column
    size: Column
    rows: Column
    added: Column


def count_sources(program: PlannedProgram) -> Sources:
    """Return the blocks of elements that the fetches of a program read."""
    tables = program.tables
    node = tables.source_node
    owner = tables.node_worker[tables.entry_node[tables.source_entry]]
    extent = tables.piece_extent[tables.source_piece]
    item_bytes = np.array([t.item_bytes for t in program.graph.tensors], np.int64)[tables.node_id[node]]
    size = extent.prod(axis=1) * item_bytes
    is_first = np.diff(tables.source_piece, prepend=-1) != 0
    return Sources(node, owner, size, _count_contiguous_runs(tables, node, extent), np.where(is_first, 0, size))


def _count_contiguous_runs(tables: ProgramTables, node: Column, extent: Column) -> Column:
    written_shape = tables.entry_shape[np.searchsorted(tables.entry_node, node)]
    read_shape = tables.entry_shape[tables.source_entry]
    run_length, is_contiguous = np.ones(len(node), np.int64), np.ones(len(node), bool)
    for dimension in reversed(range(extent.shape[1])):
        run_length = np.where(is_contiguous, run_length * extent[:, dimension], run_length)
        is_contiguous &= (extent[:, dimension] == written_shape[:, dimension]) & (
            extent[:, dimension] == read_shape[:, dimension]
        )
    return np.asarray(extent.prod(axis=1) // np.maximum(run_length, 1))


class _OperatorWork:
    def __init__(self, program: PlannedProgram) -> None:
        tables = program.tables
        self._problem, self._choices = program.problem, program.choices
        self._read_tensors = _find_read_tensors(program)
        self._number_by_key: dict[tuple[object, ...], int] = {}
        self._kind_numbers = np.zeros(len(tables.node_kind), np.int64)
        self._number_by_kind: dict[str, int] = {"": 0}
        self._parts_by_choice: dict[tuple[int, bytes], Column] = {}
        self.computed: list[Computed] = [Computed()]
        self.arithmetic = np.zeros(len(tables.node_kind), np.int64)

    def list_kinds(self, is_fetch: npt.NDArray[np.bool_]) -> tuple[tuple[str, ...], Column]:
        return (*self._number_by_kind, FETCH), np.where(is_fetch, len(self._number_by_kind), self._kind_numbers)

    def add(self, node: int, operator: int, worker: int) -> None:
        graph, access = self._problem.graph, self._problem.accesses[operator]
        key = id(access), self._choices.operators[operator].tobytes()
        if key not in self._parts_by_choice:
            self._parts_by_choice[key] = find_parts(self._choices, operator)
        box = self._parts_by_choice[key][worker]
        are_read = tuple(t in self._read_tensors for t in graph.operators[operator].outputs)
        arithmetic_key = *key, box.tobytes(), are_read
        if arithmetic_key not in self._number_by_key:
            self._number_by_key[arithmetic_key] = len(self.computed)
            self.computed.append(self._count_operator(graph, operator, access, box, are_read))
        number = self.arithmetic[node] = self._number_by_key[arithmetic_key]
        kind = name_kind(graph.operators[operator].op, graph.operators[operator].attributes)
        kind += THIN if self.computed[number].is_thin else ""
        self._kind_numbers[node] = self._number_by_kind.setdefault(kind, len(self._number_by_kind))

    def _count_operator(
        self, graph: Graph, position: int, access: OperatorAccess, box: Column, are_read: tuple[bool, ...]
    ) -> Computed:
        if not access.variable_extents:  # it has no description, or the description has no index variables
            return Computed()
        operator = graph.operators[position]
        inputs, outputs = ([graph.tensors[t].shape for t in numbers] for numbers in (operator.inputs, operator.outputs))
        arithmetic = find_signature(access.description, operator.attributes, inputs, outputs).arithmetic
        worker_extents = {axis: int(end - begin) for axis, (begin, end) in zip(access.axes, box, strict=True)}
        extents: Mapping[str, int] = {**access.variable_extents, **access.with_description_names(worker_extents)}
        contractions, other_count, is_thin = [], 0, False
        for output, is_read in zip(arithmetic, are_read, strict=True):
            for term in output if is_read else ():
                count = term.count(extents)
                if term.is_contraction(extents):
                    depth = term.count_depth(extents)
                    contractions.append(Contraction(count, count // (term.per_point * depth), depth))
                else:
                    other_count += count
                    is_thin = is_thin or bool(term.reuse)
        return Computed(tuple(contractions), other_count, is_thin)


def _find_read_tensors(program: PlannedProgram) -> frozenset[int]:
    # Kernels do not compute gradients that neither an operator nor the user reads.
    read = {t for operator in program.graph.operators for t in operator.inputs}
    return frozenset(read) | program.graph.results
