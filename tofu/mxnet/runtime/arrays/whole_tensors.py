"""Assemble whole tensors for monitors, with the names that MXNet uses on one device.

A monitor is a user's callback that receives every tensor of a model. Tensors are assembled from the workers' shards, or
from partial results, which are combined first.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np

from tofu import _mxnet
from tofu.analysis import Combine, OutputAccess
from tofu.graph import Graph, Operator, Tensor
from tofu.mxnet.frontend.inference import infer_entries
from tofu.mxnet.frontend.origin import find_origin
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.program import Entry, NodeKind, PlannedProgram
from tofu.search.geometry import find_shards

OUTPUT_NAMES = {
    "BatchNorm": ("output", "mean", "var"),
    "LayerNorm": ("output", "mean", "std"),
    "GroupNorm": ("output", "mean", "std"),
    "SpatialTransformer": ("output", "grid_dst", "grid_src"),
}
"""MXNet's names of outputs, for operators that lowerings may replace. Other outputs are numbered."""
Callback = Callable[[bytes, str, int], None]
"""Function that gets a tensor's name, its operator ("" for a variable) and a pointer to an array, which it must free."""


class _NodeOutput(NamedTuple):
    tensor: int
    worker: int
    is_in_transit: bool


@dataclass
class MonitoredTensor:
    """A tensor with the name and shape that an MXNet monitor sees.

    Attributes
    ----------
    name, shape
        Name and shape in MXNet.
    op
        Type of the operator that computes the tensor, such as "Convolution".
    inputs
        Names of the operator's inputs, as pairs (name in Tofu, name in MXNet). Empty if the tensor is not the
        operator's first output.
    """

    name: str
    shape: tuple[int, ...]
    op: str
    inputs: Sequence[tuple[str, str]]


class MonitoredTensors:
    """All computed tensors of a model, with the names that they have on one device."""

    def __init__(self, graph: Graph, native: Any) -> None:
        nodes, input_names = _mxnet.nodes(native.handle.value), _mxnet.monitored_inputs(native.handle.value)
        self.node_by_operator: dict[str, str] = {}
        self.type_by_operator = {operator.name: operator.op for operator in graph.operators}
        self.by_name: dict[str, MonitoredTensor] = {}
        shapes, _ = infer_entries(native, {tensor.name: tensor.shape for tensor in graph.tensors}, {})
        for operator in graph.operators:
            number = find_origin(operator).monitored_node
            if number < 0:  # the operator is not in MXNet's graph
                continue
            name = self.node_by_operator[operator.name] = nodes[number]["name"]
            numbered = [f"output{n}" if len(operator.outputs) > 1 else "output" for n in range(len(operator.outputs))]
            outputs = OUTPUT_NAMES.get(operator.op, numbered)
            inputs = [
                (graph.tensors[tensor].name, f"{name}_{input_name}")
                for tensor, input_name in zip(operator.inputs, input_names[number], strict=False)
            ]
            for n, (output, tensor) in enumerate(zip(outputs, operator.outputs, strict=True)):
                shape = shapes[nodes[number]["entry"] + n] or ()
                monitored = MonitoredTensor(f"{name}_{output}", shape, operator.op, inputs if n == 0 else ())
                self.by_name[graph.tensors[tensor].name] = monitored


class WholeTensors:
    """Assemble whole tensors from shards, and pass them to a monitor's `callback`.

    `read_variable(name)` returns a variable's whole array. It is None if the monitor does not want operators' inputs.
    """

    def __init__(
        self,
        program: PlannedProgram,
        monitored: MonitoredTensors,
        contexts: Sequence[Any],
        callback: Callback,
        read_variable: Callable[[str], Any] | None,
    ) -> None:
        self._program, self._monitored, self._contexts = program, monitored, contexts
        self._callback, self._read_variable = callback, read_variable
        self._outputs_by_node: dict[str, list[_NodeOutput]] = {}
        for node, outputs in _list_outputs(program):
            self._outputs_by_node.setdefault(node, []).extend(outputs)
        self._form_by_unread_tensor = dict(_list_unread_tensors(program))
        types = monitored.type_by_operator
        self._copied_operators = {o.name for o in program.graph.operators if types.get(o.name) == o.op}
        self._calls_by_node: Counter[str] = Counter()
        self._waiting_shards: dict[int, dict[int, Any]] = {}  # by tensor and worker, until all shards exist
        self._whole_by_tensor: dict[str, Any] = {}

    def __call__(self, name: bytes, handle: Any) -> None:
        """Receive an array that a worker has computed."""
        array = mx.nd.NDArray(ctypes.c_void_p(getattr(handle, "value", handle)), writable=False)
        operator, _, worker_and_output = name.decode().rpartition("@")
        worker, _, output_name = worker_and_output.partition("_")
        node = f"{operator}@{worker}"
        outputs = self._outputs_by_node.get(node)
        if outputs is None:
            return
        output = outputs[self._calls_by_node[node] % len(outputs)]
        self._calls_by_node[node] += 1
        monitored = self._monitored.by_name.get(self._get_tensor(output.tensor).name)
        if monitored is None:
            return
        if operator in self._copied_operators:  # the name of a copy of MXNet's node ends with the name of the output
            monitored.name = f"{self._monitored.node_by_operator[operator]}_{output_name}"
        if output.is_in_transit:
            return
        shards = self._waiting_shards.setdefault(output.tensor, {})
        shards[output.worker] = array.copy()  # the node's memory may be reused soon
        if len(shards) == len(self._contexts):
            self._pass_tensor_on(output.tensor, [shards[worker] for worker in range(len(self._contexts))])
            del self._waiting_shards[output.tensor]

    def _get_tensor(self, position: int) -> Tensor:
        return self._program.graph.tensors[position]

    def _pass_tensor_on(self, position: int, arrays: Sequence[Any]) -> None:
        tensor = self._get_tensor(position)
        monitored, whole = self._monitored.by_name[tensor.name], self._assemble(position, arrays)
        if whole is None:
            return
        if tuple(whole.shape) != tuple(monitored.shape):
            whole = whole.reshape(monitored.shape)
        if self._read_variable is not None:
            self._pass_inputs_on(monitored, self._read_variable)
            self._whole_by_tensor[tensor.name] = whole
        self._call_back(monitored.name, monitored.op, whole)

    def _assemble(self, position: int, arrays: Sequence[Any]) -> Any:
        tensor, factors = self._get_tensor(position), self._program.problem.factors
        form = self._form_by_unread_tensor.get(position, _WrittenForm(self._program.choices.layout(position)))
        if form is None:
            return None
        regions = find_shards(self._program.problem, position, form.layout)
        extents = [tuple(int(end - begin) for begin, end in region) for region in regions]
        if extents != [tuple(array.shape) for array in arrays]:
            return None
        workers_by_partial_result: dict[tuple[int, ...], list[int]] = {}
        for worker in range(len(arrays)):
            digits = np.unravel_index(worker, factors)
            partial_digits = tuple(int(digits[n]) for n in form.partial_rounds)
            workers_by_partial_result.setdefault(partial_digits, []).append(worker)
        partial_results = []
        for workers in workers_by_partial_result.values():
            shards = [(regions[worker], self._contexts[worker], arrays[worker]) for worker in workers]
            partial_result = ShardedTensor(tensor.name, tensor.shape, tensor.dtype, *zip(*shards, strict=True))
            partial_results.append(partial_result.gather())
        return reduce(form.reduce, partial_results)

    def _pass_inputs_on(self, monitored: MonitoredTensor, read_variable: Callable[[str], Any]) -> None:
        for read_tensor, name in monitored.inputs:
            if read_tensor in self._whole_by_tensor:
                self._call_back(name, monitored.op, self._whole_by_tensor[read_tensor])
            elif read_tensor not in self._monitored.by_name:
                whole = read_variable(read_tensor)
                self._call_back(read_tensor, "", whole)
                self._call_back(name, monitored.op, whole)

    def _call_back(self, name: str, op: str, whole: Any) -> None:
        owned = whole.copy()  # the monitor frees it
        handle, owned.handle = owned.handle.value, mx.base.NDArrayHandle(None)
        self._callback(name.encode(), op, handle)


class _WrittenForm(NamedTuple):
    # Layout of a tensor that no operator reads. Round n of the plan splits dimension `layout[n]`, or none (-1). In
    # `partial_rounds`, workers compute partial results that `reduce` combines.
    layout: list[int]
    partial_rounds: tuple[int, ...] = ()
    reduce: Callable[[Any, Any], Any] = mx.nd.add


def _list_unread_tensors(program: PlannedProgram) -> Iterator[tuple[int, _WrittenForm | None]]:
    problem = program.problem
    read_entries = {entry for node in program.nodes for entry in node.inputs}.union(*program.results)
    read_tensors = {_find_tensor_of_entry(program, entry) for entry in read_entries}
    for operator, access, choice in zip(
        problem.graph.operators, problem.accesses, program.choices.operators, strict=False
    ):
        for tensor, output in zip(operator.outputs, access.outputs, strict=True):
            if tensor not in read_tensors:
                yield tensor, _find_written_form(output, [int(axis) for axis in choice])


def _find_written_form(output: OutputAccess, axes: Sequence[int]) -> _WrittenForm | None:
    combine_by_round = [Combine.REPLICATE if axis < 0 else output.combine[axis] for axis in axes]
    if Combine.OVERLAP_ADD in combine_by_round:
        return None
    layout = [
        next(d for d, row in enumerate(output.rows) if any(term[0] == axis for term in row.terms))
        if combine is Combine.CONCAT
        else -1
        for axis, combine in zip(axes, combine_by_round, strict=True)
    ]
    partial_rounds = tuple(n for n, combine in enumerate(combine_by_round) if combine is Combine.REDUCE)
    return _WrittenForm(layout, partial_rounds, mx.nd.maximum if output.reducer == "Max" else mx.nd.add)


def _find_tensor_of_entry(program: PlannedProgram, entry: Entry) -> int:
    node = program.nodes[entry.node]
    return program.graph.operators[node.id].outputs[entry.output] if node.kind is NodeKind.OPERATOR else node.id


def _find_copy_name(operator: Operator) -> str:
    is_copy = operator.is_inner and find_origin(operator).node >= 0
    return operator.name.rpartition("/")[0] if is_copy else operator.name


def _list_outputs(program: PlannedProgram) -> Iterator[tuple[str, list[_NodeOutput]]]:
    graph = program.graph
    for number, node in enumerate(program.nodes):
        if node.kind is NodeKind.OPERATOR:
            operator = graph.operators[node.id]
            name, tensors = f"{_find_copy_name(operator)}@{node.worker}", operator.outputs
        elif node.kind is NodeKind.FETCH:
            name, tensors = f"{graph.tensors[node.id].name}@{node.worker}#{number}", (node.id,)
        else:
            continue
        yield (
            name,
            [_NodeOutput(t, node.worker, Entry(number, n) in program.transit) for n, t in enumerate(tensors)],
        )
