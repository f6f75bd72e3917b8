"""Whole tensors for monitors, assembled from the outputs of an execution graph's nodes, under the names of one device.

No fetch follows a tensor that nobody reads, such as a gradient of data. Its parts may be split in another way than the
plan says, or may have to be added.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np

from tofu import _mxnet
from tofu.analysis import Combine, OutputAccess
from tofu.graph import Graph, Operator, Tensor
from tofu.mxnet.frontend.origin import find_origin
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.program import PlannedProgram
from tofu.program.nodes import Entry, NodeKind
from tofu.search.geometry import find_shards

OUTPUT_NAMES = {
    "BatchNorm": ("output", "mean", "var"),
    "LayerNorm": ("output", "mean", "std"),
    "GroupNorm": ("output", "mean", "std"),
    "SpatialTransformer": ("output", "grid_dst", "grid_src"),
}
"""MXNet's names of the outputs of operators that may run in parts. Outputs of other operators are numbered."""
Callback = Callable[[bytes, str, int], None]
"""Function of a tensor's name, its operator (empty for a variable) and the handle of an array, which the function frees."""


class _Place(NamedTuple):
    """Tensor and worker that a node's output belongs to.

    It is in transit if it is not a shard of the tensor but a fetched region or a partial result.
    """

    tensor: int
    worker: int
    is_in_transit: bool


class TensorNames:
    """Names that MXNet gives a model's tensors on one device.

    Attributes
    ----------
    nodes, operators
        Operator -> name of MXNet's node; operator -> operator type.
    inputs
        First output of an operator -> the tensors that it reads, each with MXNet's name of the input.
    computed, entries, shapes
        Computed tensor -> operator type; MXNet's name; MXNet's shape, without a separate dimension for attention heads.
    """

    def __init__(self, graph: Graph, native: Any) -> None:
        nodes, slots = _mxnet.nodes(native.handle.value), _mxnet.monitored_inputs(native.handle.value)
        self.nodes: dict[str, str] = {}
        self.operators = {operator.name: operator.op for operator in graph.operators}
        self.computed: dict[str, str] = {}
        self.entries: dict[str, str] = {}
        self.inputs: dict[str, list[tuple[str, str]]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        given = [node["name"] for node in nodes if node["op"] == "null" and node["name"] in graph.tensor_index]
        known = {name: graph.tensors[graph.tensor_index[name]].shape for name in given}
        shapes, _ = _mxnet.infer(native.handle.value, known, {})
        for operator in graph.operators:
            number = find_origin(operator).shown
            if number < 0:  # the operator is not in MXNet's graph
                continue
            name = self.nodes[operator.name] = nodes[number]["name"]
            numbered = [f"output{n}" if len(operator.outputs) > 1 else "output" for n in range(len(operator.outputs))]
            outputs = OUTPUT_NAMES.get(operator.op, numbered)
            for output, tensor in zip(outputs, operator.outputs, strict=True):
                self.entries[graph.tensors[tensor].name] = f"{name}_{output}"
                self.computed[graph.tensors[tensor].name] = operator.op
            self.inputs[graph.tensors[operator.outputs[0]].name] = [
                (graph.tensors[tensor].name, f"{name}_{slot}")
                for tensor, slot in zip(operator.inputs, slots[number], strict=False)
            ]
            first = nodes[number]["entry"]
            self.shapes |= {graph.tensors[t].name: shapes[first + n] for n, t in enumerate(operator.outputs)}


class WholeTensors:
    """Callback that receives the outputs of an execution graph's nodes, and passes whole tensors on to a monitor.

    Parameters
    ----------
    program
        The program that the execution graph runs.
    names
        MXNet's names of the model's tensors.
    contexts
        The workers' devices.
    callback
        The monitor's callback.
    read_variable
        Function that returns a whole variable. None if the monitor does not see the operators' inputs.
    """

    def __init__(
        self,
        program: PlannedProgram,
        names: TensorNames,
        contexts: Sequence[Any],
        callback: Callback,
        read_variable: Callable[[str], Any] | None,
    ) -> None:
        self._program, self._names, self._contexts = program, names, contexts
        self._callback, self._read_variable = callback, read_variable
        self._outputs: dict[str, list[_Place]] = {}
        for node, places in _list_outputs(program):
            self._outputs.setdefault(node, []).extend(places)
        self._unread = dict(_list_unread(program))
        self._copied = {o.name for o in program.graph.operators if names.operators.get(o.name) == o.op}
        self._seen: Counter[str] = Counter()
        self._shards: dict[int, dict[int, Any]] = {}
        self._whole: dict[str, Any] = {}

    def __call__(self, name: bytes, handle: Any) -> None:
        """Receive one output of a node. MXNet calls this in the order of execution."""
        array = mx.nd.NDArray(ctypes.c_void_p(getattr(handle, "value", handle)), writable=False)
        node, _, rest = name.decode().rpartition("@")
        operator, (worker, _, output) = node, rest.partition("_")
        node = f"{operator}@{worker}"
        places = self._outputs.get(node)
        if places is None:
            return
        place = places[self._seen[node] % len(places)]
        self._seen[node] += 1
        tensor = self._tensor(place.tensor).name
        if tensor not in self._names.entries:
            return
        if operator in self._copied:  # the name of a copy of MXNet's node ends with the name of the output
            self._names.entries[tensor] = f"{self._names.nodes[operator]}_{output}"
        if place.is_in_transit:
            return
        shards = self._shards.setdefault(place.tensor, {})
        shards[place.worker] = array.copy()  # the node's memory may be reused soon
        if len(shards) == len(self._contexts):
            self._show(place.tensor, [shards[worker] for worker in range(len(self._contexts))])
            del self._shards[place.tensor]

    def _tensor(self, position: int) -> Tensor:
        return self._program.graph.tensors[position]

    def _show(self, position: int, arrays: Sequence[Any]) -> None:
        tensor = self._tensor(position)
        whole = self._assemble(position, arrays)
        if whole is None:
            return
        if tuple(whole.shape) != tuple(self._names.shapes[tensor.name]):
            whole = whole.reshape(self._names.shapes[tensor.name])
        if self._read_variable is not None:
            self._show_inputs(tensor.name, self._read_variable)
            self._whole[tensor.name] = whole
        self._pass_on(self._names.entries[tensor.name], self._names.computed[tensor.name], whole)

    def _assemble(self, position: int, arrays: Sequence[Any]) -> Any:
        """Return the whole tensor, assembled from the workers' arrays; None if nobody reads it and the arrays overlap."""
        tensor, factors = self._tensor(position), self._program.problem.factors
        written = self._unread.get(position, _Written(self._program.choices.layout(position)))
        if written is None:
            return None
        regions = find_shards(self._program.problem, position, written.layout)
        extents = [tuple(int(end - begin) for begin, end in region) for region in regions]
        if extents != [tuple(array.shape) for array in arrays]:
            return None
        groups: dict[tuple[int, ...], list[int]] = {}
        for worker in range(len(arrays)):
            digits = np.unravel_index(worker, factors)
            groups.setdefault(tuple(int(digits[step]) for step in written.partial_steps), []).append(worker)
        parts = []
        for workers in groups.values():
            shards = [(regions[worker], self._contexts[worker], arrays[worker]) for worker in workers]
            own_regions, contexts, own = zip(*shards, strict=True)
            parts.append(ShardedTensor(tensor.name, tensor.shape, tensor.dtype, own_regions, contexts, own).gather())
        return reduce(written.join, parts)

    def _show_inputs(self, tensor: str, read_variable: Callable[[str], Any]) -> None:
        """Show the inputs of the operator whose first output is `tensor`. Variables are also shown under their own names."""
        op = self._names.computed[tensor]
        for source, name in self._names.inputs.get(tensor, ()):
            if source in self._whole:
                self._pass_on(name, op, self._whole[source])
            elif source not in self._names.entries:
                whole = read_variable(source)
                self._pass_on(source, "", whole)
                self._pass_on(name, op, whole)

    def _pass_on(self, name: str, op: str, whole: Any) -> None:
        owned = whole.copy()  # the monitor frees it
        handle, owned.handle = owned.handle.value, mx.base.NDArrayHandle(None)
        self._callback(name.encode(), op, handle)


class _Written(NamedTuple):
    """Form in which the copies of an operator write an output.

    `layout` has the dimension that each round splits, or -1 for none. `partial_steps` are the rounds that leave partial
    results, which `join` combines.
    """

    layout: list[int]
    partial_steps: tuple[int, ...] = ()
    join: Callable[[Any, Any], Any] = mx.nd.add


def _list_unread(program: PlannedProgram) -> Iterator[tuple[int, _Written | None]]:
    """Yield the tensors that no node reads, except results, with the form in which they are written; None if parts overlap."""
    problem = program.problem
    read = {entry for node in program.nodes for entry in node.inputs}.union(*program.results)
    tensors_read = {_find_tensor(program, entry) for entry in read}
    for operator, access, steps in zip(
        problem.graph.operators, problem.accesses, program.choices.operators, strict=False
    ):
        for tensor, written in zip(operator.outputs, access.outputs, strict=True):
            if tensor not in tensors_read:
                yield tensor, _find_written(written, [int(axis) for axis in steps])


def _find_written(written: OutputAccess, axes: Sequence[int]) -> _Written | None:
    """Return the form in which copies write an output if round i splits `axes[i]`, or replicates the operator if it is -1."""
    combined = [Combine.REPLICATE if axis < 0 else written.combine[axis] for axis in axes]
    if Combine.OVERLAP_ADD in combined:
        return None
    layout = [
        next(d for d, row in enumerate(written.rows) if any(term[0] == axis for term in row.terms))
        if how is Combine.CONCAT
        else -1
        for axis, how in zip(axes, combined, strict=True)
    ]
    partial = tuple(step for step, how in enumerate(combined) if how is Combine.REDUCE)
    return _Written(layout, partial, mx.nd.maximum if written.reducer == "Max" else mx.nd.add)


def _find_tensor(program: PlannedProgram, entry: Entry) -> int:
    node = program.nodes[entry.node]
    return program.graph.operators[node.id].outputs[entry.output] if node.kind is NodeKind.OPERATOR else node.id


def _name_of_copies(operator: Operator) -> str:
    """Return the name of an operator's copies in the execution graph. A part that copies a node of the model has its name."""
    is_copy = operator.is_inner and find_origin(operator).node >= 0
    return operator.name.rpartition("/")[0] if is_copy else operator.name


def _list_outputs(program: PlannedProgram) -> Iterator[tuple[str, list[_Place]]]:
    """Yield the name of each node with the places of its outputs. Nodes of equal name run in this order."""
    graph = program.graph
    for number, node in enumerate(program.nodes):
        if node.kind is NodeKind.OPERATOR:
            operator = graph.operators[node.id]
            name, tensors = f"{_name_of_copies(operator)}@{node.worker}", operator.outputs
        elif node.kind is NodeKind.FETCH:
            name, tensors = f"{graph.tensors[node.id].name}@{node.worker}#{number}", (node.id,)
        else:
            continue
        transit = [Entry(number, output) in program.transit for output in range(len(tensors))]
        yield name, [_Place(t, node.worker, is_moved) for t, is_moved in zip(tensors, transit, strict=True)]
