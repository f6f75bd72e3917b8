"""A backend in NumPy that runs programs, and counts the bytes that they move and hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod

import numpy as np

from tests.numpy_engine.front_end import NumpyFrontEnd
from tests.numpy_engine.operators import DESCRIPTIONS
from tofu.engine import Engine, Measured
from tofu.errors import InternalError
from tofu.graph import Graph, TensorKind
from tofu.program import Node, NodeKind, Program, check_program, worker_attributes, write_program
from tofu.search.geometry import find_shards
from tofu.tdl import interpret

Array = np.ndarray
Shape = tuple[int, ...]
REDUCERS = {"Sum": np.add, "Max": np.maximum, "Min": np.minimum, "Prod": np.multiply}
Boxes = np.ndarray


@dataclass
class Execution:
    """Program that can run. `boxes` has the shards of each variable, `result_boxes` those of each result.

    `read_bytes` counts the bytes read from other workers.
    """

    graph: Graph
    program: Program
    attributes: list[list[dict[str, str]]]
    boxes: dict[int, Boxes]
    result_boxes: list[Boxes]
    read_bytes: int = 0
    values: list[list[Array]] = field(default_factory=list)

    def run(self, shards: Mapping[str, Sequence[Array]]) -> list[list[Array]]:
        self.values = []
        for node in self.program.nodes:
            if node.kind is NodeKind.VARIABLE:
                made = [shards[self.graph.tensors[node.id].name][node.worker]]
            elif node.kind is NodeKind.FETCH:
                made = [self._fetch(node)]
            else:
                made = self._compute(node)
            if tuple(array.shape for array in made) != node.shapes:
                raise InternalError(f"{node} became {[array.shape for array in made]}")
            self.values.append(made)
        return [[self.values[node][output] for node, output in entries] for entries in self.program.results]

    def cut(self, values: Mapping[str, Array]) -> dict[str, list[Array]]:
        named = {self.graph.tensors[tensor].name: boxes for tensor, boxes in self.boxes.items()}
        return {name: [values[name][slices(box)] for box in boxes] for name, boxes in named.items()}

    def run_whole(self, values: Mapping[str, Array]) -> list[Array]:
        shapes = [self.graph.tensors[output.tensor].shape for output in self.program.outputs]
        return [
            join_shards(*result) for result in zip(self.run(self.cut(values)), self.result_boxes, shapes, strict=True)
        ]

    def _compute(self, node: Node) -> list[Array]:
        operator = self.graph.operators[node.id]
        inputs = [self.values[entry.node][entry.output] for entry in node.inputs]
        attributes = {**operator.attributes, **self.attributes[node.id][node.worker]}
        return interpret(DESCRIPTIONS[operator.op], attributes, inputs, node.shapes)

    def _fetch(self, node: Node) -> Array:
        tensor = self.graph.tensors[node.id]
        together = REDUCERS[self.program.reducers.get(node.id, "Sum")]
        result = np.full(node.shapes[0], node.fill)
        for piece in node.pieces:
            read = []
            for source in piece.sources:
                entry = node.inputs[source.input]
                cells = self.values[entry.node][entry.output][slice_box(source.begin, source.extent(piece.extent))]
                read.append(cells.reshape(piece.extent))
                if self.program.nodes[entry.node].worker != node.worker:
                    self.read_bytes += prod(piece.extent) * tensor.item_bytes
            result[slice_box(piece.begin, piece.extent)] = reduce(together, read)
        return result


class NumpyBackend:
    measured = "memory"
    unmeasured = ""

    def build(self, source, program):
        choices = program.choices
        problem = choices.problem
        table, index = worker_attributes(choices, program.phases)
        graph = problem.graph
        variables = [t for t, tensor in enumerate(graph.tensors) if tensor.kind is not TensorKind.INTERMEDIATE]
        return Execution(
            graph,
            program,
            [[table[row] for row in rows] for rows in index],
            {tensor: find_shards(problem, tensor, choices.layout(tensor)) for tensor in variables},
            [find_shards(problem, output.tensor, output.layout) for output in program.outputs],
        )

    def predict_peak(self, source, choices):
        """Return nothing: the measured bytes include all buffers."""

    def measure(self, source, choices):
        """Return the bytes that each worker needs: shards of all variables, and the peak of other live values."""
        execution = self.build(source, write_program(choices))
        graph, program = execution.graph, execution.program
        held = np.zeros(program.workers, np.int64)
        for tensor, boxes in execution.boxes.items():
            held += (boxes[..., 1] - boxes[..., 0]).prod(axis=1) * graph.tensors[tensor].item_bytes
        made, read = [], []
        for node in program.nodes:
            tensors = graph.operators[node.id].outputs if node.kind is NodeKind.OPERATOR else (node.id,)
            sizes = [prod(s) * graph.tensors[t].item_bytes for s, t in zip(node.shapes, tensors, strict=True)]
            made.append(0 if node.kind is NodeKind.VARIABLE else sum(sizes))
            read.append({entry.node for entry in node.inputs})
        kept = {entry.node for entry in program.output_entries}
        peaks = find_peaks([node.worker for node in program.nodes], made, read, kept)
        return Measured(tuple(int(held[worker]) + peaks.get(worker, 0) for worker in range(program.workers)))

    def measure_whole(self, source):
        graph = source.graph
        producer = {tensor: n for n, operator in enumerate(graph.operators) for tensor in operator.outputs}
        held = sum(tensor.size_bytes for tensor in graph.tensors if tensor.kind is not TensorKind.INTERMEDIATE)
        made = [sum(graph.tensors[t].size_bytes for t in operator.outputs) for operator in graph.operators]
        read = [{producer[t] for t in operator.inputs if t in producer} for operator in graph.operators]
        kept = {producer[t] for t in graph.results}
        return held + find_peaks([0] * len(made), made, read, kept)[0]

    predict_whole_peak = measure_whole

    def find_kernel_bytes(self, program):
        """Return nothing: NumPy computes each operator by itself."""

    def check(self, execution, choices, worker_bytes=None, communication_bytes=None):
        program = execution.program
        check_program(program, communication_bytes)
        for entries, boxes in zip(program.results, execution.result_boxes, strict=True):
            shapes = [program.nodes[entry.node].shapes[entry.output] for entry in entries]
            if shapes != [tuple(shape) for shape in (boxes[..., 1] - boxes[..., 0]).tolist()]:
                raise InternalError(f"The shards of a result have the shapes {shapes}, the plan says {boxes.tolist()}.")


NUMPY = Engine(NumpyFrontEnd(), NumpyBackend())


def find_peaks(owners: list[int], made: list[int], read: list[set[int]], kept: set[int]) -> dict[int, int]:
    """Return each owner's largest number of live bytes. Values live until their last reader, or to the end if in `kept`."""
    last = {producer: reader for reader, producers in enumerate(read) for producer in producers}
    last.update(dict.fromkeys(kept, len(owners)))
    ending: dict[int, list[int]] = {}
    for producer, reader in last.items():
        ending.setdefault(reader, []).append(producer)
    now, peaks = dict.fromkeys(owners, 0), dict.fromkeys(owners, 0)
    for node, owner in enumerate(owners):
        now[owner] += made[node]
        peaks[owner] = max(peaks[owner], now[owner])
        for done in [*ending.get(node, ()), *(() if node in last else (node,))]:
            now[owners[done]] -= made[done]
    return peaks


def slices(box: Iterable[tuple[int, int]]) -> tuple[slice, ...]:
    return tuple(slice(begin, end) for begin, end in box)


def slice_box(begin: Shape, extent: Shape) -> tuple[slice, ...]:
    return slices((b, b + e) for b, e in zip(begin, extent, strict=True))


def join_shards(shards: Sequence[Array], boxes: Boxes, shape: Shape) -> Array:
    whole = np.full(shape, np.nan)
    for shard, box in zip(shards, boxes, strict=True):
        there = whole[slices(box)]
        np.testing.assert_allclose(shard[~np.isnan(there)], there[~np.isnan(there)], rtol=1e-9, atol=1e-12)
        whole[slices(box)] = shard
    assert not np.isnan(whole).any()
    return whole
