"""The memory of a training step on one device and on every worker, without allocating any (paper section 6).

What a bound module allocates is exact: shards, gradients, optimizer states, and the buffers that the planner shares between everything
else. What kernels ask for while they run is an estimate (`tofu.report.workspace`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tofu import _mxnet
from tofu.execution.emit import worker_group
from tofu.execution.memory import Variables, source_variables, worker_variables
from tofu.graph import Graph, TensorKind
from tofu.graph.mxnet import TrainingGraph
from tofu.partition import Partition
from tofu.report.optimizer_states import OptimizerStates
from tofu.report.workspace import estimate_workspace

GRADIENTS, ACTIVATIONS, FETCH_BUFFERS = range(3)
USES = ("gradients", "activations", "fetch buffers")
TRANSIT = 3  # the kind of an entry in transit between workers, in tofu._mxnet.PlannedGraph.entries
FIRST_POOLED = 2  # kinds below are variables


@dataclass(frozen=True)
class DeviceMemory:
    """What one device needs for a training step, in bytes.

    Attributes
    ----------
    name
        "one device" or "worker 3".
    parameters_bytes, optimizer_bytes, inputs_bytes
        Held through all steps: weights; what the optimizer keeps for them; data, labels, head gradients and auxiliary states.
    gradients_bytes
        All gradients, as they are at the end of a step.
    pool_bytes
        Buffers that gradients, activations and fetch buffers share.
    workspace_bytes
        An estimate of what kernels ask for while they run.
    nodes
        Names of the device's operators and fetches in the order of execution.
    uses
        [use, node]: bytes of the pool in use at each of them, for gradients, activations and fetch buffers (fetched regions, padded
        copies, partial results).
    """

    name: str
    parameters_bytes: int
    optimizer_bytes: int
    inputs_bytes: int
    gradients_bytes: int
    pool_bytes: int
    workspace_bytes: int
    nodes: tuple[str, ...]
    uses: npt.NDArray[np.int64]

    @property
    def planned_bytes(self) -> int:
        """What is allocated, exactly; the workspace comes on top."""
        return self.parameters_bytes + self.optimizer_bytes + self.inputs_bytes + self.pool_bytes

    @property
    def needed_bytes(self) -> int:
        """What the device must have: what is planned, and the workspace as estimated."""
        return self.planned_bytes + self.workspace_bytes

    @cached_property
    def peak(self) -> int:
        """Position in `nodes` at which most of the pool is in use."""
        return int(self.uses.sum(axis=0).argmax()) if self.nodes else 0

    @property
    def peak_node(self) -> str:
        """The operator or fetch at the peak."""
        return self.nodes[self.peak] if self.nodes else ""

    @property
    def at_peak(self) -> dict[str, int]:
        """Bytes of each part at the peak; together with what lies idle then they are `planned_bytes`."""
        pooled = self.uses[:, self.peak].tolist() if self.nodes else [0] * len(USES)
        parts = {
            "parameters": self.parameters_bytes,
            "optimizer states": self.optimizer_bytes,
            "inputs and states": self.inputs_bytes,
            **dict(zip(USES, pooled, strict=True)),
        }
        return {**parts, "idle": self.planned_bytes - sum(parts.values())}

    def __repr__(self) -> str:
        return f"<DeviceMemory {self.name}: {self.planned_bytes} bytes planned, peak at {self.peak_node}>"


@dataclass(frozen=True)
class MemoryReport:
    """One device and all workers (none where one device was asked for).

    `communication_bytes` is what the workers move in a step; `optimizer` says whose states are counted.
    """

    one_device: DeviceMemory
    workers: tuple[DeviceMemory, ...]
    communication_bytes: int
    optimizer: str

    @property
    def largest(self) -> DeviceMemory:
        """The worker that needs most, or the one device."""
        return max(self.workers or (self.one_device,), key=lambda worker: worker.needed_bytes)

    def fits(self, device_bytes: int) -> bool:
        """Whether `device_bytes` are enough for every worker."""
        return self.largest.needed_bytes <= device_bytes

    def __str__(self) -> str:
        from tofu.report.memory_table import format_report

        return format_report(self)


def account_one_device(source: TrainingGraph, states: OptimizerStates) -> DeviceMemory:
    """One device that runs the whole training graph; `states` are those of the optimizer that will train it."""
    graph = source.graph
    whole = {t: [tensor.shape] for t, tensor in enumerate(graph.tensors) if tensor.kind is not TensorKind.INTERMEDIATE}
    gradients = _mxnet.outputs(source.symbol.handle.value)[len(graph.outputs) :]
    return _account(source.symbol, source_variables(graph), graph, whole, {"": "one device"}, gradients, states)[0]


def account_workers(partition: Partition, states: OptimizerStates) -> tuple[DeviceMemory, ...]:
    """The workers of a partition."""
    graph, execution = partition.graph, partition.training
    problem, choices, workers = partition.problem, partition.choices, execution.workers
    shards = {
        t: [tuple(int(end - begin) for begin, end in box) for box in problem.shards(choices, t)]
        for t, tensor in enumerate(graph.tensors)
        if tensor.kind is not TensorKind.INTERMEDIATE
    }
    results = _mxnet.outputs(execution.symbol.handle.value)[: len(execution.outputs) * workers]
    gradients = results[execution.n_model_outputs * workers :]
    names = {worker_group(worker): f"worker {worker}" for worker in range(workers)}
    variables = worker_variables(problem, choices, execution)
    return tuple(_account(execution.symbol, variables, graph, shards, names, gradients, states))


def _account(
    symbol: Any,
    variables: Variables,
    graph: Graph,
    shards: Mapping[int, Sequence[tuple[int, ...]]],
    names: Mapping[str, str],
    gradients: list[tuple[int, int]],
    states: OptimizerStates,
) -> list[DeviceMemory]:
    """The devices of a graph. `shards`: variable -> its shape on each of them; `names`: group -> name, in the same order."""
    buffers = _mxnet.PlannedGraph(symbol.handle.value, *variables)
    planned = buffers.memory()
    entries = _Entries(buffers.entries(), gradients)
    workspace = estimate_workspace(symbol, variables)
    devices = []
    for position, (group, name) in enumerate(names.items()):
        held = dict.fromkeys(TensorKind, 0)
        optimizer_bytes = 0
        for variable, shapes in shards.items():
            tensor = graph.tensors[variable]
            held[tensor.kind] += prod(shapes[position]) * tensor.item_bytes
            if variable in graph.updated:
                optimizer_bytes += states.count_bytes(tensor, shapes[position])
        parameters = held.pop(TensorKind.PARAMETER)
        devices.append(
            DeviceMemory(
                name=name,
                parameters_bytes=parameters,
                optimizer_bytes=optimizer_bytes,
                inputs_bytes=sum(held.values()),
                gradients_bytes=entries.gradient_bytes(group),
                pool_bytes=planned[group]["pool"],
                workspace_bytes=workspace.get(group, 0),
                nodes=entries.nodes_of(group),
                uses=entries.uses_of(group),
            )
        )
    return devices


class _Entries:
    """The planned entries of a graph, as lifetimes of buffers."""

    def __init__(self, table: Mapping[str, Any], gradients: list[tuple[int, int]]) -> None:
        self._names = table["nodes"]
        self._groups = {group: number for number, group in enumerate(table["groups"])}
        self._columns = {name: table[name] for name in ("node", "output", "kind", "group", "bytes", "buffer", "last")}
        pairs = zip(self._columns["node"].tolist(), self._columns["output"].tolist(), strict=True)
        wanted = set(gradients)
        self._is_gradient = np.fromiter((pair in wanted for pair in pairs), bool, len(self._columns["node"]))

    def _rows(self, group: str) -> npt.NDArray[np.bool_]:
        return np.asarray((self._columns["group"] == self._groups[group]) & (self._columns["kind"] >= FIRST_POOLED))

    def gradient_bytes(self, group: str) -> int:
        return int(self._columns["bytes"][self._rows(group) & self._is_gradient].sum())

    def nodes_of(self, group: str) -> tuple[str, ...]:
        return tuple(self._names[node] for node in np.unique(self._columns["node"][self._rows(group)]))

    def uses_of(self, group: str) -> npt.NDArray[np.int64]:
        """[use, node of the group]: bytes in use. What is computed in place of something else is counted once, under its last use."""
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
            use = GRADIENTS if is_gradient else FETCH_BUFFERS if kind == TRANSIT else ACTIVATIONS
            lifetime.extend(last, size, use)
        lifetime.add_to(changes)
        return changes.cumsum(axis=1)[:, own]


class _Lifetime:
    """A buffer from the first node of what is computed in it, in place, to the last that reads it."""

    def __init__(self, buffer: int = -1, first: int = 0) -> None:
        self.buffer, self.first, self.last, self.size, self.use = buffer, first, first, 0, FETCH_BUFFERS

    def extend(self, last: int, size: int, use: int) -> None:
        self.last, self.size, self.use = max(self.last, last), max(self.size, size), min(self.use, use)

    def add_to(self, changes: npt.NDArray[np.int64]) -> None:
        changes[self.use, self.first] += self.size
        changes[self.use, self.last + 1] -= self.size
