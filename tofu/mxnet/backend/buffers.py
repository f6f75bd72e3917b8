"""The memory of the workers, from the planner that binding uses: bytes without allocating."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tofu import _mxnet
from tofu.engine import Source
from tofu.graph import Graph, Tensor, TensorKind
from tofu.mxnet.backend.execution_graph import ExecutionGraph
from tofu.mxnet.frontend.inference import DTYPE_NAMES
from tofu.program import shard_name, worker_group
from tofu.search import Choices
from tofu.search.geometry import find_shards

Variables = tuple[dict[str, tuple[int, ...]], dict[str, int]]  # name -> shape, name -> MXNet's type code


def variable_shards(choices: Choices) -> Iterator[tuple[Tensor, int, tuple[int, ...]]]:
    """The variables of the graph, and the shape of their shard on each worker."""
    for position, tensor in enumerate(choices.problem.graph.tensors):
        if tensor.kind is not TensorKind.INTERMEDIATE:
            for worker, box in enumerate(find_shards(choices.problem, position, choices.layout(position))):
                yield tensor, worker, tuple(int(end - begin) for begin, end in box)


def source_variables(graph: Graph) -> Variables:
    """Shapes and type codes of the variables of a graph for one device."""
    whole = [tensor for tensor in graph.tensors if tensor.kind is not TensorKind.INTERMEDIATE]
    return {t.name: t.shape for t in whole}, {t.name: DTYPE_NAMES.index(t.dtype) for t in whole}


def worker_variables(choices: Choices, execution: ExecutionGraph) -> Variables:
    """Shapes and type codes of the variables of an execution graph: of the shards that it reads."""
    present = {*execution.symbol.list_arguments(), *execution.symbol.list_auxiliary_states()}
    shapes: dict[str, tuple[int, ...]] = {}
    codes: dict[str, int] = {}
    for tensor, worker, shape in variable_shards(choices):
        name = shard_name(tensor.name, worker)
        if name in present:
            shapes[name], codes[name] = shape, DTYPE_NAMES.index(tensor.dtype)
    return shapes, codes


def measure_one_device(source: Source) -> int:
    """What MXNet's planner asks for to run a whole training graph on one device; nothing is allocated."""
    planned = _mxnet.PlannedGraph(source.native.handle.value, *source_variables(source.graph))
    return sum(device["arguments"] + device["auxiliary"] + device["pool"] for device in planned.memory().values())


def plan_buffers(choices: Choices, execution: ExecutionGraph) -> _mxnet.PlannedGraph:
    """The execution graph with the buffers that binding will give it; nothing is allocated."""
    return _mxnet.PlannedGraph(execution.symbol.handle.value, *worker_variables(choices, execution))


def plan_worker_bytes(choices: Choices, execution: ExecutionGraph, planned: _mxnet.PlannedGraph) -> tuple[int, ...]:
    """Bytes that each worker needs: its shards of all variables, and all buffers."""
    held = [0] * execution.workers
    for tensor, worker, shape in variable_shards(choices):
        held[worker] += prod(shape) * tensor.item_bytes
    memory = planned.memory()
    return tuple(held[worker] + memory[worker_group(worker)]["pool"] for worker in range(execution.workers))
