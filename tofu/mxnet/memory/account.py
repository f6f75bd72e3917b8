"""Add up the memory of a training step on one device and on every worker (paper section 6). No array is allocated.

The numbers are exact, except for an estimate of the *workspace* of convolutions, which is memory that their kernels
request while they run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tofu import _mxnet
from tofu.engine import Source
from tofu.graph import Graph, TensorKind
from tofu.mxnet.backend.buffers import Variables, list_shard_shapes, source_variables, worker_variables
from tofu.mxnet.frontend.inference import DTYPE_NAMES
from tofu.mxnet.frontend.symbol_text import GROUP_KEY
from tofu.mxnet.memory.optimizer_states import OptimizerStates
from tofu.mxnet.memory.report import ACTIVATIONS, FETCH_BUFFERS, GRADIENTS, USES, DeviceMemory
from tofu.pipeline import Partition
from tofu.program import worker_group

PAGE_BYTES, LARGE_BYTES = 4096, 2 << 20
DEFAULT_WORKSPACE_MIB = 1024  # MXNet's default of `workspace`
PAGE_VARIABLE, LARGE_VARIABLE = "MXNET_GPU_MEM_POOL_PAGE_SIZE", "MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE"


def round_up(count: int) -> int:
    """Return the bytes that MXNet allocates on a GPU for an array of `count` bytes.

    Sizes are rounded up to whole pages, and above 2 MiB to multiples of 2 MiB (src/storage/pooled_storage_manager.h).
    """
    page = int(os.environ.get(PAGE_VARIABLE, PAGE_BYTES))
    large = int(os.environ.get(LARGE_VARIABLE, LARGE_BYTES))
    rounded = -(-count // page) * page
    return -(-rounded // large) * large if rounded > large else rounded


def account_one_device(source: Source, states: OptimizerStates) -> DeviceMemory:
    """Return the memory that one device needs to train the whole model."""
    graph = source.graph
    whole = {variable: [graph.tensors[variable].shape] for variable in graph.variables}
    gradients = _mxnet.outputs(source.native.handle.value)[len(graph.outputs) :]
    return _account(source.native, source_variables(graph), graph, whole, {"": "one device"}, gradients, states)[0]


def account_workers(partition: Partition, states: OptimizerStates) -> tuple[DeviceMemory, ...]:
    """Return the memory that each worker needs for training."""
    graph, execution = partition.graph, partition.training
    problem, choices, workers = partition.problem, partition.choices, execution.workers
    shards = {t: list_shard_shapes(problem, t, choices.layout(t)) for t in graph.variables}
    results = _mxnet.outputs(execution.symbol.handle.value)[: len(execution.outputs) * workers]
    gradients = results[execution.n_model_outputs * workers :]
    names = {worker_group(worker): f"worker {worker}" for worker in range(workers)}
    variables = worker_variables(choices, execution)
    return tuple(_account(execution.symbol, variables, graph, shards, names, gradients, states))


def count_rounding(partition: Partition) -> tuple[int, ...]:
    """Return how many bytes each GPU loses because MXNet rounds up array sizes. Ignores optimizer states."""
    return tuple(device.rounding_bytes for device in account_workers(partition, OptimizerStates(None, {})))


def _account(
    symbol: Any,
    variables: Variables,
    graph: Graph,
    shards: Mapping[int, Sequence[tuple[int, ...]]],
    names: Mapping[str, str],
    gradients: list[tuple[int, int]],
    states: OptimizerStates,
) -> list[DeviceMemory]:
    buffers = _mxnet.PlannedGraph(symbol.handle.value, *variables)
    planned = buffers.memory()
    entries = _Entries(buffers.entries(), gradients)
    workspace = _estimate_workspace(symbol, variables)
    devices = []
    for position, (group, name) in enumerate(names.items()):
        held = dict.fromkeys(TensorKind, 0)
        kept: list[int] = []
        arrays = entries.buffers_of(group)
        for variable, shapes in shards.items():
            tensor = graph.tensors[variable]
            count = prod(shapes[position]) * tensor.item_bytes
            held[tensor.kind] += count
            arrays.append(count)
            if variable in graph.updated:
                kept += states.list_bytes(tensor, shapes[position])
        parameters = held.pop(TensorKind.PARAMETER)
        devices.append(
            DeviceMemory(
                name=name,
                parameters_bytes=parameters,
                optimizer_bytes=sum(kept),
                inputs_bytes=sum(held.values()),
                gradients_bytes=entries.gradient_bytes(group),
                pool_bytes=planned[group]["pool"],
                workspace_bytes=workspace.get(group, 0),
                rounding_bytes=sum(round_up(count) - count for count in (*arrays, *kept)),
                nodes=entries.nodes_of(group),
                uses=entries.uses_of(group),
            )
        )
    return devices


def _estimate_workspace(symbol: Any, variables: Variables) -> dict[str, int]:
    """Return {device group: bytes of the largest workspace of its convolutions}.

    The libraries cuDNN and oneDNN choose their algorithms at run time. The estimate is for the algorithm that needs
    most memory, which copies the window of each output position. For cuDNN, the attribute `workspace` limits the size,
    in MiB.
    """
    handle = symbol.handle.value
    nodes = _mxnet.nodes(handle)
    convolutions = [node for node in nodes if node["op"].endswith(("Convolution", "Deconvolution"))]
    if not convolutions:
        return {}
    shapes, types = _mxnet.infer(handle, *variables)
    needed: dict[str, int] = {}
    for node in convolutions:
        inputs = [shapes[nodes[source]["entry"] + index] or () for source, index in node["inputs"]]
        item_bytes = np.dtype(DTYPE_NAMES[types[node["entry"]]]).itemsize
        unfolded = item_bytes * _count_window_elements(node, inputs, shapes[node["entry"]] or ())
        limit = int(node["attrs"].get("workspace", DEFAULT_WORKSPACE_MIB)) << 20
        group = node["attrs"].get(GROUP_KEY, "")
        needed[group] = max(needed.get(group, 0), min(unfolded, limit))
    return needed


def _count_window_elements(node: Mapping[str, Any], inputs: Sequence[Sequence[int]], output: Sequence[int]) -> int:
    is_backward = "_backward_" in node["op"]  # a backward operator's first input is the output's gradient
    data, weight = inputs[is_backward], inputs[is_backward + 1]
    result = inputs[0] if is_backward else output
    positions = data if node["op"].endswith("Deconvolution") else result
    window = prod(weight[1:]) * int(node["attrs"].get("num_group", 1))
    return window * positions[0] * prod(positions[2:])


class _Entries:
    def __init__(self, table: Mapping[str, Any], gradients: list[tuple[int, int]]) -> None:
        self._names = table["nodes"]
        self._groups = {group: number for number, group in enumerate(table["groups"])}
        self._columns = {name: table[name] for name in ("node", "output", "kind", "group", "bytes", "buffer", "last")}
        pairs = zip(self._columns["node"].tolist(), self._columns["output"].tolist(), strict=True)
        wanted = set(gradients)
        self._is_pooled = np.isin(self._columns["kind"], (_mxnet.PlannedGraph.TENSOR, _mxnet.PlannedGraph.TRANSIT))
        self._is_gradient = np.fromiter((pair in wanted for pair in pairs), bool, len(self._columns["node"]))

    def _rows(self, group: str) -> npt.NDArray[np.bool_]:
        return np.asarray(self._is_pooled & (self._columns["group"] == self._groups[group]))

    def buffers_of(self, group: str) -> list[int]:
        rows = self._rows(group) & (self._columns["buffer"] >= 0)
        numbers, place = np.unique(self._columns["buffer"][rows], return_inverse=True)
        largest = np.zeros(len(numbers), np.int64)
        np.maximum.at(largest, place, self._columns["bytes"][rows])
        return [int(count) for count in largest]

    def gradient_bytes(self, group: str) -> int:
        return int(self._columns["bytes"][self._rows(group) & self._is_gradient].sum())

    def nodes_of(self, group: str) -> tuple[str, ...]:
        return tuple(self._names[node] for node in np.unique(self._columns["node"][self._rows(group)]))

    def uses_of(self, group: str) -> npt.NDArray[np.int64]:
        rows = self._rows(group)
        own = np.unique(self._columns["node"][rows])
        rows &= self._columns["buffer"] >= 0
        order = np.lexsort((self._columns["node"][rows], self._columns["buffer"][rows]))
        columns = [self._columns[name][rows][order].tolist() for name in ("buffer", "node", "last", "bytes", "kind")]
        changes = np.zeros((len(USES), len(self._names) + 2), np.int64)
        lifetime = _Lifetime()
        for buffer, node, last, size, kind, is_gradient in zip(
            *columns, self._is_gradient[rows][order].tolist(), strict=True
        ):
            if buffer != lifetime.buffer or node > lifetime.last:
                lifetime.add_to(changes)
                lifetime = _Lifetime(buffer, node)
            use = GRADIENTS if is_gradient else FETCH_BUFFERS if kind == _mxnet.PlannedGraph.TRANSIT else ACTIVATIONS
            lifetime.extend(last, size, use)
        lifetime.add_to(changes)
        return changes.cumsum(axis=1)[:, own]


class _Lifetime:
    def __init__(self, buffer: int = -1, first: int = 0) -> None:
        self.buffer, self.first, self.last, self.size, self.use = buffer, first, first, 0, FETCH_BUFFERS

    def extend(self, last: int, size: int, use: int) -> None:
        self.last, self.size, self.use = max(self.last, last), max(self.size, size), min(self.use, use)

    def add_to(self, changes: npt.NDArray[np.int64]) -> None:
        changes[self.use, self.first] += self.size
        changes[self.use, self.last + 1] -= self.size
