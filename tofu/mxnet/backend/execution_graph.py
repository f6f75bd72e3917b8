"""Build execution graphs: MXNet graphs (symbols) that contain the operators of all workers (paper section 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tofu import _mxnet
from tofu.engine import Source
from tofu.graph import Phase
from tofu.mxnet.frontend.inference import DTYPE_NAMES
from tofu.mxnet.frontend.origin import find_origin
from tofu.mxnet.frontend.read_symbol import wrap_symbol
from tofu.program import OutputShards, PlannedProgram, worker_attributes
from tofu.program.attributes import NO_ROW
from tofu.search import Choices, Problem

KERNEL_CHOICES: Mapping[str, Mapping[str, str]] = {
    op: {"cudnn_off": "True"} for op in ("BatchNorm", "_backward_BatchNorm")
}
"""Attributes that select MXNet's own GPU kernel in training instead of cuDNN's.

cuDNN's BatchNorm updates the moving statistics in the forward pass. MXNet's and Tofu's own kernels update them in the
backward pass. With both kinds in a model, statistics would be updated twice, or never.
"""

_REDUCERS = ("Sum", "Max", "Min", "Prod")  # numbered as in csrc/core/program/piece.h


@dataclass(frozen=True)
class ExecutionGraph:
    """An MXNet graph (symbol) that runs a model on all workers.

    The graph returns the shards of the model's outputs, then the shards of the gradients.
    """

    symbol: Any
    outputs: tuple[OutputShards, ...]
    n_model_outputs: int
    workers: int
    kept: frozenset[int] = frozenset()
    """Positions in `outputs` of tensors that share no memory, and so stay unchanged until the next backward pass."""

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Names of the graph's arguments, in MXNet's order."""
        return tuple(self.symbol.list_arguments())

    @cached_property
    def states(self) -> tuple[str, ...]:
        """Names of the graph's auxiliary states (such as moving means), in MXNet's order."""
        return tuple(self.symbol.list_auxiliary_states())

    @cached_property
    def keeping_gradients(self) -> ExecutionGraph:
        """A copy of this graph in which forward passes do not overwrite the gradients."""
        begin, end = (count * self.workers for count in (self.n_model_outputs, len(self.outputs)))
        handle, positions = _mxnet.keep_outputs(self.symbol.handle.value, begin, end)
        shards = Counter(position // self.workers for position in positions)
        kept = frozenset(output for output, count in shards.items() if count == self.workers)
        return replace(self, symbol=wrap_symbol(handle), kept=kept)

    @cached_property
    def forward_boundary(self) -> int:
        """Number of nodes that the forward pass runs. They are the first nodes of the graph."""
        return int(_mxnet.boundary(self.symbol.handle.value, self.n_model_outputs * self.workers))


def build_execution_graph(source: Source, program: PlannedProgram) -> ExecutionGraph:
    """Build the MXNet graph that runs `program` on all workers."""
    builder = make_builder(source, program.choices, program.phases, program.reducers)
    symbol = wrap_symbol(builder.build(program.code))
    return ExecutionGraph(symbol, program.outputs, program.n_model_outputs, program.workers)


def make_builder(
    source: Source,
    choices: Choices,
    phases: Sequence[Phase],
    reducers: Mapping[int, str],
    workers_by_operator: Mapping[int, Sequence[int]] | None = None,
) -> _mxnet.ExecutionGraphBuilder:
    """Return a builder of MXNet graphs that run `phases`, such as the forward pass.

    `reducers` maps a tensor to the function that combines its partial results, such as "Sum". `workers_by_operator`
    maps an operator to the workers that run it. By default, every worker runs every operator.
    """
    graph = choices.problem.graph
    origins = [find_origin(operator) for operator in graph.operators]
    attributes, index = worker_attributes(choices, phases, workers_by_operator)
    kernels = KERNEL_CHOICES if Phase.BACKWARD in phases else {}
    rewritten = [
        {**kernels.get(operator.op, {}), **origin.rewritten}
        for operator, origin in zip(graph.operators, origins, strict=True)
    ]
    _add_rewritten(rewritten, attributes, index)
    types = [DTYPE_NAMES.index(tensor.dtype) for tensor in graph.tensors]
    return _mxnet.ExecutionGraphBuilder(
        source.native.handle.value,
        [origin.node for origin in origins],
        attributes,
        index,
        [tensor.name for tensor in graph.tensors],
        types,
        list(graph.variables),
        {
            position: (
                operator.name,
                operator.op,
                dict(operator.attributes),
                [types[tensor] for tensor in operator.inputs],
                [types[tensor] for tensor in operator.outputs],
            )
            for position, (operator, origin) in enumerate(zip(graph.operators, origins, strict=True))
            if origin.node < 0
        },
        {tensor: _REDUCERS.index(reducer) for tensor, reducer in reducers.items()},
        _list_requested_outputs(choices.problem, phases),
    )


def _add_rewritten(
    rewritten: Sequence[Mapping[str, str]], table: list[dict[str, str]], index: npt.NDArray[np.int32]
) -> None:
    known: dict[tuple[tuple[tuple[str, str], ...], int], int] = {}
    for position, changed in enumerate(rewritten):
        if not changed:
            continue
        text = tuple(sorted(changed.items()))
        found_by_row = {NO_ROW: NO_ROW}
        for row in set(index[position].tolist()) - {NO_ROW}:
            found = known.setdefault((text, row), len(table))
            if found == len(table):
                table.append({**changed, **table[row]})
            found_by_row[row] = found
        index[position] = [found_by_row[row] for row in index[position].tolist()]


def _list_requested_outputs(problem: Problem, phases: Sequence[Phase]) -> dict[int, list[int]]:
    graph = problem.graph
    running = [(position, operator) for position, operator in enumerate(graph.operators) if operator.phase in phases]
    read = graph.results.union(*(operator.inputs for _, operator in running))
    requested: dict[int, list[int]] = {}
    for position, operator in running:
        if len(operator.outputs) == 1:
            continue
        wanted = {n for n, tensor in enumerate(operator.outputs) if tensor in read}
        if Phase.BACKWARD in phases:
            wanted.update(find_origin(operator).requested)
        needs = problem.accesses[position].description.needs
        wanted = wanted.union(*(needs.get(n, ()) for n in wanted))
        if wanted:
            requested[position] = [n for n in range(len(operator.outputs)) if n in wanted]
    return requested
