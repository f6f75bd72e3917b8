"""Programs as frozen values, in three forms: an array of integers, tables of numbers, and a list of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from tofu.graph import Graph, Phase
from tofu.program.nodes import Entry, Node, Piece, list_nodes, pick_entries
from tofu.program.tables import NodeKind, ProgramTables, read_tables

Layout = tuple[int, ...]


@dataclass(frozen=True)
class OutputShards:
    """A tensor that a program returns in shards."""

    tensor: int
    layout: Layout


@dataclass(frozen=True)
class Program:
    """The program of all workers. `print(program)` prints one line for each node.

    Attributes
    ----------
    code
        All nodes in execution order, encoded as integers (`csrc/core/program/program.h`).
    graph
        The graph. Nodes refer to its operators and tensors by number.
    outputs
        The results: the model's outputs first, then gradients and next values of variables.
    n_model_outputs
        The number of the model's outputs among the results.
    reducers
        The function that combines the partial results of a tensor. The default is "Sum".
    readers
        In a short program, {worker: number of workers with equal programs}. Only the transfers of these workers are
        described. Empty if the transfers of all workers are described. Only such programs run.
    """

    code: npt.NDArray[np.int64]
    graph: Graph = field(repr=False)
    outputs: tuple[OutputShards, ...]
    n_model_outputs: int
    workers: int
    phases: tuple[Phase, ...]
    reducers: Mapping[int, str] = field(default_factory=dict)
    readers: Mapping[int, int] = field(default_factory=dict, repr=False)

    @cached_property
    def tables(self) -> ProgramTables:
        """The nodes as tables of numbers."""
        return read_tables(self.code)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes in the order in which they run."""
        return list_nodes(self.tables)

    @cached_property
    def output_entries(self) -> tuple[Entry, ...]:
        """The shards of all results, then other arrays that no node reads."""
        return pick_entries(self.tables, self.tables.output_entry)

    @cached_property
    def results(self) -> tuple[tuple[Entry, ...], ...]:
        """The shards of each tensor in `outputs`, by worker."""
        ends = range(self.workers, (len(self.outputs) + 1) * self.workers, self.workers)
        return tuple(self.output_entries[end - self.workers : end] for end in ends)

    @cached_property
    def transit(self) -> frozenset[Entry]:
        """All intermediate arrays, such as partial results and copies from other workers."""
        return frozenset(pick_entries(self.tables, self.tables.transit_entry))

    @cached_property
    def entry_tensor(self) -> npt.NDArray[np.int64]:
        """The number of the tensor to which each array (entry) belongs."""
        return self.tables.find_entry_tensors([operator.outputs for operator in self.graph.operators])

    @cached_property
    def entry_bytes(self) -> npt.NDArray[np.int64]:
        """Size in bytes of each entry. An entry is an output array of a node."""
        item_bytes = np.array([tensor.item_bytes for tensor in self.graph.tensors], np.int64)
        return np.asarray(self.tables.entry_shape.prod(axis=1) * item_bytes[self.entry_tensor])

    @cached_property
    def remote_bytes(self) -> int:
        """Bytes that workers read from each other's memory in a training step."""
        return self.tables.count_remote_bytes([tensor.moved_item_bytes for tensor in self.graph.tensors])

    def __repr__(self) -> str:
        phases = ", ".join(phase.name.lower() for phase in self.phases)
        kinds = np.bincount(self.tables.node_kind, minlength=len(NodeKind))
        return (
            f"{phases} on {self.workers} workers: {kinds[NodeKind.OPERATOR]} copies of operators and {kinds[NodeKind.FETCH]} fetches, "
            f"which read {self.remote_bytes} bytes from other workers"
        )

    def __str__(self) -> str:
        return "\n".join((repr(self), *_Printer(self).list_lines()))


class _Printer:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._graph, self._nodes = program.graph, program.nodes

    def list_lines(self) -> Iterator[str]:
        width = len(f"%{len(self._nodes) - 1}")
        for number, node in enumerate(self._nodes):
            phase = "" if node.kind is NodeKind.VARIABLE else node.phase.name.lower()
            yield f"worker {node.worker}  {phase:8}  {f'%{number}':{width}} = {self._show_node(node)}"
        for output, entries in zip(self._program.outputs, self._program.results, strict=True):
            entries_text = ", ".join(f"{self._show_entry(entry)}@{self._nodes[entry.node].worker}" for entry in entries)
            yield f"result {self._graph.tensors[output.tensor].name}: {entries_text}"

    def _show_node(self, node: Node) -> str:
        if node.kind is NodeKind.OPERATOR:
            operator = self._graph.operators[node.id]
            inputs = ", ".join(map(self._show_entry, node.inputs))
            return f"{operator.op} {operator.name} ({inputs}) -> {', '.join(str(list(shape)) for shape in node.shapes)}"
        tensor = f"{self._graph.tensors[node.id].name} {list(node.shapes[0])}"
        if node.kind is NodeKind.VARIABLE:
            return f"shard of {tensor}"
        parts = [f"{_show_box(piece.begin, piece.extent)} = {self._show_sources(node, piece)}" for piece in node.pieces]
        if sum(prod(piece.extent) for piece in node.pieces) < prod(node.shapes[0]):
            parts.append(f"{'else' if parts else 'all'} {node.fill:g}")
        return f"fetch {tensor}: {'; '.join(parts)}"

    def _show_sources(self, node: Node, piece: Piece) -> str:
        shown = []
        for source in piece.sources:
            entry = node.inputs[source.input]
            owner, extent = self._nodes[entry.node], source.extent(piece.extent)
            is_whole = extent == owner.shapes[entry.output]
            box = "" if is_whole else _show_box(source.begin, extent)
            shown.append(f"{self._show_entry(entry)}{'' if owner.worker == node.worker else f'@{owner.worker}'}{box}")
        reducer = self._program.reducers.get(node.id)
        return " + ".join(shown) if len(shown) == 1 or reducer is None else f"{reducer.lower()}({', '.join(shown)})"

    def _show_entry(self, entry: Entry) -> str:
        return f"%{entry.node}" if len(self._nodes[entry.node].shapes) == 1 else f"%{entry.node}.{entry.output}"


def _show_box(begin: tuple[int, ...], extent: tuple[int, ...]) -> str:
    return f"[{', '.join(f'{b}:{b + e}' for b, e in zip(begin, extent, strict=True))}]"
