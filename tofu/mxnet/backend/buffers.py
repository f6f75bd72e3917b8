"""Predict how much memory each worker needs, with MXNet's own memory planner. No array is allocated."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tofu import _mxnet
from tofu.engine import Source
from tofu.graph import Graph
from tofu.mxnet.backend.execution_graph import ExecutionGraph, make_builder
from tofu.mxnet.frontend.inference import DTYPE_NAMES
from tofu.program import TRAINING, shard_name, worker_group, write_outlines
from tofu.search import Choices, Problem
from tofu.search.geometry import find_shards

Shape = tuple[int, ...]
Variables = tuple[dict[str, Shape], dict[str, int]]  # name -> shape, name -> MXNet's type code


def list_shard_shapes(problem: Problem, tensor: int, layout: Sequence[int]) -> list[Shape]:
    """Return the shape of each worker's shard: [(4, 3), (4, 3)] if an (8, 3) tensor is split by rows."""
    return [tuple(int(end - begin) for begin, end in box) for box in find_shards(problem, tensor, layout)]


def source_variables(graph: Graph) -> Variables:
    """Return {name: shape} and {name: MXNet type code} for a model's variables."""
    whole = [graph.tensors[variable] for variable in graph.variables]
    return {t.name: t.shape for t in whole}, {t.name: DTYPE_NAMES.index(t.dtype) for t in whole}


def worker_variables(choices: Choices, execution: ExecutionGraph) -> Variables:
    """Return {name: shape} and {name: MXNet type code} for the shards of all variables."""
    present = {*execution.symbol.list_arguments(), *execution.symbol.list_auxiliary_states()}
    shapes: dict[str, Shape] = {}
    codes: dict[str, int] = {}
    for position in choices.problem.graph.variables:
        tensor = choices.problem.graph.tensors[position]
        for worker, shape in enumerate(list_shard_shapes(choices.problem, position, choices.layout(position))):
            name = shard_name(tensor.name, worker)
            if name in present:
                shapes[name], codes[name] = shape, DTYPE_NAMES.index(tensor.dtype)
    return shapes, codes


def measure_one_device(source: Source) -> int:
    """Return the bytes that one device needs to train the whole model."""
    planned = _mxnet.PlannedGraph(source.native.handle.value, *source_variables(source.graph))
    return sum(device["arguments"] + device["auxiliary"] + device["pool"] for device in planned.memory().values())


def plan_buffers(choices: Choices, execution: ExecutionGraph) -> _mxnet.PlannedGraph:
    """Plan the buffers that MXNet will allocate for an execution graph."""
    return _mxnet.PlannedGraph(execution.symbol.handle.value, *worker_variables(choices, execution))


def measure_workers(source: Source, choices: Choices) -> tuple[int, ...]:
    """Return the bytes of variables and buffers that each worker needs. Builds no execution graph."""
    outlines = write_outlines(choices)
    builder = make_builder(source, choices, TRAINING, {}, outlines.workers_by_operator)
    pools = builder.count_pool_bytes(outlines.kinds, outlines.codes)
    return tuple(held + pools[outline] for held, outline in zip(_count_held(choices), outlines.workers, strict=True))


def add_up_workers(choices: Choices, planned: _mxnet.PlannedGraph) -> tuple[int, ...]:
    """Return the bytes of variables and buffers that each worker needs. `planned` has the sizes of the buffers."""
    memory = planned.memory()
    return tuple(held + memory[worker_group(worker)]["pool"] for worker, held in enumerate(_count_held(choices)))


def _count_held(choices: Choices) -> list[int]:
    held = np.zeros(prod(choices.problem.factors), np.int64)
    for position in choices.problem.graph.variables:
        boxes = find_shards(choices.problem, position, choices.layout(position))
        item_bytes = choices.problem.graph.tensors[position].item_bytes
        held += (boxes[..., 1] - boxes[..., 0]).prod(axis=1) * item_bytes
    return [int(count) for count in held]
