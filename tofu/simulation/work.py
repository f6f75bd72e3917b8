"""The work of each node of a program: operations, counted from descriptions, and bytes that it reads and writes.

A node is one kernel or fetch on one worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tofu import _core
from tofu.analysis import Arithmetic, OperatorAccess, find_arithmetic
from tofu.graph import Graph
from tofu.program import NodeKind, PlannedProgram
from tofu.program.tables import ProgramTables
from tofu.simulation.kernels import FETCH, THIN, UPDATE, Rates, name_kind

Floats = npt.NDArray[np.float64]
Column = npt.NDArray[np.int64]


class Contraction(NamedTuple):
    """Sum of products on one worker, such as a matrix product: operations, elements of the result, products per element."""

    operations: int
    cells: int
    depth: int


@dataclass(frozen=True)
class Computed:
    """Arithmetic of an operator on one worker.

    `is_thin` marks products that use each element of a factor only once, such as a matrix times one column.
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
    """Work of every node, as columns with one item for each node. Weight updates follow the nodes of the program.

    Attributes
    ----------
    kinds, kind
        `kinds[kind[n]]` is the kind of node n's kernel, "fetch" or "update".
    computed, arithmetic, dtype
        `computed[arithmetic[n]]` is the arithmetic of node n, and `dtype[n]` the type of its results.
    size
        Bytes that the node reads and writes.
    rows, added
        For a fetch, the number of contiguous runs of elements that it copies, and the bytes that it adds to other bytes.
    times
        Number of runs of the node in a step.
    is_computed_elsewhere
        True if the node is fused into the kernels that read it, so that it costs no call.
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
        """Return the duration of each node on a device that shares nothing with others, in a program of `workers` workers."""
        call = np.where(self.is_computed_elsewhere, 0.0, rates.call if workers == 1 else rates.call_of_several)
        contracted, other = (
            self._look_up([getattr(computed, name) for computed in self.computed]) for name in ("contracted", "other")
        )
        roofline = call + np.maximum(self._compute(rates), self.size / rates.memory)
        seconds = np.where(contracted + other + self.size > 0, roofline, 0.0)
        far = np.maximum(self.size - rates.cache, 0)
        for number, name in enumerate(self.kinds):
            if (fitted := rates.measured.get(name)) is not None:
                rows = self.kind == number
                seconds[rows] = (
                    fitted.call
                    + (0 if name == UPDATE else call[rows])
                    + fitted.contracted * (self.added if name == FETCH else contracted)[rows]
                    + fitted.other * (self.rows if name == FETCH else other)[rows]
                    + fitted.byte * self.size[rows]
                    + fitted.far_byte * far[rows]
                )
        return np.asarray(seconds * self.times, np.float64)

    def _look_up(self, numbers: list[float]) -> Floats:
        return np.asarray(np.asarray(numbers, np.float64)[self.arithmetic])

    def _compute(self, rates: Rates) -> Floats:
        seconds = np.zeros(len(self.kind))
        for dtype in set(self.dtype.tolist()):
            of_type = [
                sum(rates.contract(*contraction, dtype) for contraction in computed.contractions)
                + rates.compute(computed.other, dtype)
                for computed in self.computed
            ]
            rows = self.dtype == dtype
            seconds[rows] = self._look_up(of_type)[rows]
        return seconds


def find_work(program: PlannedProgram, states: int) -> Work:
    """Return the work of a program's nodes, and of the weight updates of an optimizer with `states` arrays for each weight."""
    problem = program.problem
    tables, graph = program.tables, problem.graph
    entry_bytes, entry_tensor = program.entry_bytes, program.entry_tensor
    counts = _Counting(program)
    for node in np.flatnonzero(tables.node_kind == NodeKind.OPERATOR).tolist():
        counts.add(node, int(tables.node_id[node]), int(tables.node_worker[node]))
    size = np.bincount(tables.entry_node, entry_bytes, len(tables.node_kind)).astype(np.int64)
    size += np.bincount(tables.read_node, entry_bytes[tables.read_entry], len(size)).astype(np.int64)
    is_fetch = tables.node_kind == NodeKind.FETCH
    fetched = count_sources(program)
    size[is_fetch] = (
        np.bincount(tables.entry_node, entry_bytes, len(size)) + np.bincount(fetched.node, fetched.size, len(size))
    )[is_fetch]
    size[tables.node_kind == NodeKind.VARIABLE] = 0
    is_operator = tables.node_kind == NodeKind.OPERATOR
    is_computed_elsewhere = np.zeros(len(size), bool)
    if program.kernel_bytes is not None:
        own = np.array([program.kernel_bytes.get(number, -1) for number in range(len(graph.operators))], np.int64)
        moved = own[np.where(is_operator, tables.node_id, 0)] if len(own) else size
        size = np.where(is_operator, np.maximum(moved, 0), size)
        is_computed_elsewhere = is_operator & (moved < 0)
    first = np.searchsorted(tables.entry_node, np.arange(len(size)))
    tensor = entry_tensor[np.minimum(first, len(entry_tensor) - 1)]
    dtype = np.array([t.dtype for t in graph.tensors], object)[tensor]
    times = np.array([t.times for t in graph.tensors], np.int64)[tensor]
    runs = np.array([t.times * t.addends for t in graph.tensors], np.int64)[tensor]
    times = np.where(is_operator, runs, times)
    kinds, kind = counts.kinds(is_fetch)
    rows, added = (
        np.bincount(fetched.node, column, len(size)).astype(np.int64) for column in (fetched.rows, fetched.added)
    )
    arithmetic = tuple(counts.computed), counts.arithmetic
    step = Work(kinds, kind, *arithmetic, dtype, size, rows, added, times, is_computed_elsewhere)
    return _with_updates(step, program, states)


def _with_updates(step: Work, program: PlannedProgram, states: int) -> Work:
    updates = list_updates(program)
    if not updates:
        return step
    cells = [prod(update.shape) for update in updates]
    tensors = [program.graph.tensors[update.parameter] for update in updates]
    sizes = [(3 + 2 * states) * count * tensor.item_bytes for count, tensor in zip(cells, tensors, strict=True)]
    computed = {count: Computed(other=(2 + 3 * states) * count) for count in cells}
    number = {count: len(step.computed) + n for n, count in enumerate(computed)}
    ones = np.ones(len(updates), np.int64)
    return Work(
        (*step.kinds, UPDATE),
        np.concatenate([step.kind, ones * len(step.kinds)]),
        (*step.computed, *computed.values()),
        np.concatenate([step.arithmetic, [number[count] for count in cells]]),
        np.concatenate([step.dtype, np.array([tensor.dtype for tensor in tensors], object)]),
        np.concatenate([step.size, np.array(sizes, np.int64)]),
        np.concatenate([step.rows, 0 * ones]),
        np.concatenate([step.added, 0 * ones]),
        np.concatenate([step.times, ones]),
        np.concatenate([step.is_computed_elsewhere, np.zeros(len(updates), bool)]),
    )


class Update(NamedTuple):
    """Update of a worker's shard of a parameter. It reads one entry of the program, the gradient."""

    parameter: int
    worker: int
    entry: int
    shape: tuple[int, ...]


def list_updates(program: PlannedProgram) -> tuple[Update, ...]:
    """Return the updates of all shards of the parameters that an optimizer updates after the step."""
    graph, tables = program.graph, program.tables
    of_gradient = {
        output.tensor: number for number, output in enumerate(program.outputs) if number >= program.n_model_outputs
    }
    found = []
    for parameter in sorted(graph.updated):
        number = of_gradient.get(graph.gradients[parameter])
        if number is not None:
            entries = tables.output_entry[(number) * program.workers : (number + 1) * program.workers].tolist()
            for worker, entry in enumerate(entries):
                shape = tables.entry_shape[entry][: tables.entry_rank[entry]]
                found.append(Update(parameter, worker, entry, tuple(shape.tolist())))
    return tuple(found)


class Sources(NamedTuple):
    """Boxes of elements that fetches read, as columns.

    Each box has its fetch, the worker that owns it, its bytes, its contiguous runs, and the bytes that are added to
    another box.
    """

    node: Column
    owner: Column
    size: Column
    rows: Column
    added: Column


def count_sources(program: PlannedProgram) -> Sources:
    """Return the boxes that the fetches of a program read."""
    tables = program.tables
    node = tables.source_node
    owner = tables.node_worker[tables.entry_node[tables.source_entry]]
    extent = tables.piece_extent[tables.source_piece]
    item = np.array([t.item_bytes for t in program.graph.tensors], np.int64)[tables.node_id[node]]
    size = extent.prod(axis=1) * item
    is_first = np.diff(tables.source_piece, prepend=-1) != 0
    return Sources(node, owner, size, _count_rows(tables, node, extent), np.where(is_first, 0, size))


def _count_rows(tables: ProgramTables, node: Column, extent: Column) -> Column:
    written = tables.entry_shape[np.searchsorted(tables.entry_node, node)]
    read = tables.entry_shape[tables.source_entry]
    run, is_whole = np.ones(len(node), np.int64), np.ones(len(node), bool)
    for dimension in reversed(range(extent.shape[1])):
        run = np.where(is_whole, run * extent[:, dimension], run)
        is_whole &= (extent[:, dimension] == written[:, dimension]) & (extent[:, dimension] == read[:, dimension])
    return np.asarray(extent.prod(axis=1) // np.maximum(run, 1))


class _Counting:
    def __init__(self, program: PlannedProgram) -> None:
        tables = program.tables
        self._problem, self._choices = program.problem, program.choices
        self._read = _find_read(program)
        self._counted: dict[tuple[object, ...], int] = {}
        self._ops = np.zeros(len(tables.node_kind), np.int64)
        self._names: dict[str, int] = {"": 0}
        self._boxes: dict[tuple[int, bytes], Column] = {}
        self._known: dict[int, tuple[OperatorAccess, Arithmetic]] = {}
        self.computed: list[Computed] = [Computed()]
        self.arithmetic = np.zeros(len(tables.node_kind), np.int64)

    def kinds(self, is_fetch: npt.NDArray[np.bool_]) -> tuple[tuple[str, ...], Column]:
        """Return the kinds by number, and the number of each node."""
        return (*self._names, FETCH), np.where(is_fetch, len(self._names), self._ops)

    def add(self, node: int, operator: int, worker: int) -> None:
        """Count the arithmetic of a node, which runs `operator` on `worker`."""
        graph, access = self._problem.graph, self._problem.accesses[operator]
        choice = self._choices.operators[operator]
        key = id(access), choice.tobytes()
        if key not in self._boxes:
            factors = list(self._problem.factors)
            self._boxes[key] = _core.worker_boxes(self._problem.native, factors, "operator", operator, choice.tolist())
        box = self._boxes[key][worker]
        used = tuple(t in self._read for t in graph.operators[operator].outputs)
        counted = *key, box.tobytes(), used
        if counted not in self._counted:
            self._counted[counted] = len(self.computed)
            self.computed.append(self._count(graph, operator, access, box, used))
        number = self.arithmetic[node] = self._counted[counted]
        kind = name_kind(graph.operators[operator].op, graph.operators[operator].attributes)
        kind += THIN if self.computed[number].is_thin else ""
        self._ops[node] = self._names.setdefault(kind, len(self._names))

    def _count(
        self, graph: Graph, position: int, access: OperatorAccess, box: Column, used: tuple[bool, ...]
    ) -> Computed:
        if not access.variable_extents:  # it has no description, or the description has no index variables
            return Computed()
        if id(access) not in self._known:
            operator = graph.operators[position]
            inputs, outputs = ([graph.tensors[t].shape for t in some] for some in (operator.inputs, operator.outputs))
            found = find_arithmetic(access.description, operator.attributes, inputs, outputs)
            self._known[id(access)] = access, found
        worker_extents = {axis: int(end - begin) for axis, (begin, end) in zip(access.axes, box, strict=True)}
        extents: Mapping[str, int] = {**access.variable_extents, **access.by_own_names(worker_extents)}
        contractions, other, is_thin = [], 0, False
        for output, is_used in zip(self._known[id(access)][1], used, strict=True):
            for term in output if is_used else ():
                count = term.count(extents)
                if term.is_contraction(extents):
                    depth = term.count_depth(extents)
                    contractions.append(Contraction(count, count // (term.per_point * depth), depth))
                else:
                    other += count
                    is_thin = is_thin or bool(term.reuse)
        return Computed(tuple(contractions), other, is_thin)


def _find_read(program: PlannedProgram) -> frozenset[int]:
    """Return the tensors that are read or are results. Kernels skip gradients that nothing reads."""
    read = {t for operator in program.graph.operators for t in operator.inputs}
    return frozenset(read) | program.graph.results
