"""Emission: the choices of a plan become an MXNet symbol over k workers (paper section 6).

The native core turns the choices into a program (operator copies and fetches with their pieces, in the order of execution); the NNVM
side turns the program into nodes. Between the two stand the attributes that each worker's copy needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tofu import _core, _mxnet
from tofu.graph import Phase
from tofu.graph.mxnet import DTYPE_NAMES, TrainingGraph, wrap_symbol
from tofu.search import Choices, Problem
from tofu.search.strategies import Box, region_shape

Layout = tuple[int, ...]


def worker_group(worker: int) -> str:
    """The context group of a worker's nodes in the execution graph."""
    return f"tofu_worker_{worker}"


def shard_name(tensor: str, worker: int) -> str:
    """The name of the variable that holds a worker's shard of `tensor`."""
    return f"{tensor}@{worker}"


@dataclass(frozen=True)
class OutputShards:
    """One whole result of the execution graph: a tensor whose shards, in a layout, are k successive outputs of the symbol."""

    tensor: int
    layout: Layout


@dataclass(frozen=True)
class ExecutionGraph:
    """The partitioned symbol. Its outputs are the shards of `outputs`, worker by worker, the model's own outputs first."""

    symbol: Any
    outputs: tuple[OutputShards, ...]
    n_model_outputs: int
    workers: int

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The names of the symbol's arguments, in MXNet's order."""
        return tuple(self.symbol.list_arguments())

    @cached_property
    def states(self) -> tuple[str, ...]:
        """The names of the symbol's auxiliary states, in MXNet's order."""
        return tuple(self.symbol.list_auxiliary_states())

    @cached_property
    def forward_boundary(self) -> int:
        """How many of the symbol's nodes, in execution order, the model's outputs need."""
        return int(_mxnet.boundary(self.symbol.handle.value, self.n_model_outputs * self.workers))


def emit(training: TrainingGraph, problem: Problem, choices: Choices, *, inference: bool = False) -> ExecutionGraph:
    """Emit the execution graph of a plan.

    Parameters
    ----------
    training
        The graph whose nodes are copied. Parts of operators, which it does not have, are made by name.
    problem, choices
        The native problem of the same graph, and a choice for each operator and tensor.
    inference
        Emit the forward operators alone, over the same shards.
    """
    phases = (Phase.FORWARD,) if inference else (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
    outputs = list_outputs(problem, choices, phases)
    program = write_program(problem, choices, phases, outputs)
    symbol = build_symbol(training, problem, choices, phases, program)
    return ExecutionGraph(symbol, outputs, len(problem.graph.outputs), prod(problem.factors))


def list_outputs(problem: Problem, choices: Choices, phases: Sequence[Phase]) -> tuple[OutputShards, ...]:
    """The model's outputs, and where there is a backward phase the gradients: in the parameter's layout if it is updated."""
    graph = problem.graph
    outputs = [OutputShards(t, tuple(problem.layout(choices, t))) for t in graph.outputs]
    if Phase.BACKWARD in phases:
        for parameter, gradient in graph.gradients.items():
            aligned = parameter if parameter in graph.updated else gradient
            outputs.append(OutputShards(gradient, tuple(problem.layout(choices, aligned))))
    return tuple(outputs)


def write_program(
    problem: Problem, choices: Choices, phases: Sequence[Phase], outputs: Sequence[OutputShards]
) -> npt.NDArray[np.int64]:
    """What every worker runs, without names and attributes, as `csrc/core/program.h` encodes it."""
    return _core.emit(
        problem.native,
        list(problem.factors),
        choices.operators,
        choices.tensors,
        [int(phase) for phase in phases],
        [(output.tensor, list(output.layout)) for output in outputs],
        kept=choices.kept,
        reread=choices.reread,
    )


def build_symbol(
    training: TrainingGraph,
    problem: Problem,
    choices: Choices,
    phases: Sequence[Phase],
    program: npt.NDArray[np.int64],
) -> Any:
    """The program as an MXNet symbol, whose nodes are copies of those of `training`."""
    graph = problem.graph
    attributes, index = worker_attributes(problem, choices, phases)
    types = [DTYPE_NAMES.index(tensor.dtype) for tensor in graph.tensors]
    handle = _mxnet.build_execution_graph(
        training.symbol.handle.value,
        program,
        [operator.node for operator in graph.operators],
        attributes,
        index,
        [tensor.name for tensor in graph.tensors],
        types,
        {
            o: (operator.name, operator.op, dict(operator.attributes), [types[t] for t in operator.inputs])
            for o, operator in enumerate(graph.operators)
            if operator.node < 0
        },
        [
            tensor
            for operator, access in zip(graph.operators, problem.accesses, strict=True)
            for tensor, written in zip(operator.outputs, access.outputs, strict=True)
            if written.reducer == "Max"
        ],
        _list_asked_outputs(problem, phases),
    )
    return wrap_symbol(handle)


def _list_asked_outputs(problem: Problem, phases: Sequence[Phase]) -> dict[int, list[int]]:
    """Operators of several outputs -> those that every copy computes: what anybody reads, of whichever copy, and what is asked for."""
    graph = problem.graph
    running = [(position, operator) for position, operator in enumerate(graph.operators) if operator.phase in phases]
    read = {*graph.outputs, *graph.gradients.values()}.union(*(operator.inputs for _, operator in running))
    asked: dict[int, list[int]] = {}
    for position, operator in running:
        if len(operator.outputs) == 1:
            continue
        wanted = {n for n, tensor in enumerate(operator.outputs) if tensor in read}
        if Phase.BACKWARD in phases:
            wanted.update(operator.asked)
        needs = problem.accesses[position].description.needs
        wanted = wanted.union(*(needs.get(n, ()) for n in wanted))
        if wanted:
            asked[position] = [n for n in range(len(operator.outputs)) if n in wanted]
    return asked


def worker_attributes(
    problem: Problem, choices: Choices, phases: Sequence[Phase]
) -> tuple[list[dict[str, str]], npt.NDArray[np.int32]]:
    """The attributes that copies change: a table of distinct sets, and for [operator, worker] the row that applies.

    Row 0 is empty: the copy keeps the original's attributes.
    """
    workers = prod(problem.factors)
    table: list[dict[str, str]] = [{}]
    index = np.zeros((len(problem.graph.operators), workers), np.int32)
    row_of: dict[tuple[tuple[str, str], ...], int] = {(): 0}
    known: dict[tuple[int, bytes], npt.NDArray[np.int32]] = {}  # operators of one signature have one access object
    for position, operator in enumerate(problem.graph.operators):
        if operator.phase not in phases:
            continue
        signature = id(problem.accesses[position]), choices.operators[position].tobytes()
        if signature in known:
            index[position] = known[signature]
            continue
        boxes = _core.worker_boxes(
            problem.native, list(problem.factors), "operator", position, choices.operators[position].tolist()
        )
        seen: dict[bytes, int] = {}
        for worker in range(workers):
            key = boxes[worker].tobytes()
            if key not in seen:
                box = tuple((int(begin), int(end)) for begin, end in boxes[worker])
                changed = tuple(sorted(_copy_attributes(problem, position, box).items()))
                seen[key] = row_of.setdefault(changed, len(table))
                if seen[key] == len(table):
                    table.append(dict(changed))
            index[position, worker] = seen[key]
        known[signature] = index[position]
    return table, index


def _copy_attributes(problem: Problem, position: int, box: Box) -> dict[str, str]:
    """The attributes that the copy of an operator computing `box` does not share with the original node."""
    operator, access = problem.graph.operators[position], problem.accesses[position]
    tensors = problem.graph.tensors
    inputs = [
        region_shape(r.rows, tensors[t].shape, box, access.extents)
        for t, r in zip(operator.inputs, access.inputs, strict=True)
    ]
    outputs = [
        region_shape(w.rows, tensors[t].shape, box, access.extents)
        for t, w in zip(operator.outputs, access.outputs, strict=True)
    ]
    changed = access.worker_attributes(dict(zip(access.axes, box, strict=True)), inputs, outputs)
    return {**operator.rewritten, **{k: v for k, v in changed.items() if operator.attributes.get(k) != v}}
