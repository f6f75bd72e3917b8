"""The memory of the workers, from MXNet's own planner: bytes without allocating."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tofu import _mxnet
from tofu.execution.emit import ExecutionGraph, shard_name, worker_group
from tofu.graph import Tensor, TensorKind
from tofu.graph.mxnet import DTYPE_NAMES
from tofu.search import Choices, Problem


def variable_shards(problem: Problem, choices: Choices) -> Iterator[tuple[Tensor, int, tuple[int, ...]]]:
    """The variables of the graph, and the shape of their shard on each worker."""
    for position, tensor in enumerate(problem.graph.tensors):
        if tensor.kind is not TensorKind.INTERMEDIATE:
            for worker, box in enumerate(problem.shards(choices, position)):
                yield tensor, worker, tuple(int(end - begin) for begin, end in box)


def plan_worker_bytes(problem: Problem, choices: Choices, execution: ExecutionGraph) -> tuple[int, ...]:
    """Bytes that each worker needs, from MXNet's planner without allocating: its shards of all variables, and all buffers."""
    present = {*execution.arguments, *execution.states}
    shapes: dict[str, tuple[int, ...]] = {}
    codes: dict[str, int] = {}
    held = [0] * execution.workers
    for tensor, worker, shape in variable_shards(problem, choices):
        held[worker] += prod(shape) * tensor.item_bytes
        name = shard_name(tensor.name, worker)
        if name in present:
            shapes[name], codes[name] = shape, DTYPE_NAMES.index(tensor.dtype)
    planned = _mxnet.plan_memory(execution.symbol.handle.value, shapes, codes)
    return tuple(held[worker] + planned[worker_group(worker)]["pool"] for worker in range(execution.workers))
