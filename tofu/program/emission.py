"""Generate the program of all workers from a plan (section 6), in C++ (`csrc/core/program/program.h`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tofu import _core
from tofu.graph import Phase
from tofu.program.program import OutputShards, Program
from tofu.program.tables import NodeKind, read_tables
from tofu.search import Choices, Problem

NO_READERS: Mapping[int, int] = {}
TRAINING = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)


@dataclass(frozen=True, repr=False)
class PlannedProgram(Program):
    """A program, and the plan from which it was generated.

    Attributes
    ----------
    choices
        How the plan splits each operator and tensor of the program's graph.
    kernel_bytes
        The bytes that each operator's kernel reads and writes on a worker, or None (`Backend.find_kernel_bytes`).
    """

    choices: Choices = field(kw_only=True)
    kernel_bytes: Mapping[int, int] | None = field(default=None, kw_only=True)

    @property
    def problem(self) -> Problem:
        """The search problem that the plan solves."""
        return self.choices.problem


def write_program(
    choices: Choices, *, inference: bool = False, readers: Mapping[int, int] = NO_READERS
) -> PlannedProgram:
    """Return the program of all workers.

    With `inference=True`, it has only forward operators. `readers` are explained in `Program`.
    """
    problem = choices.problem
    phases = (Phase.FORWARD,) if inference else TRAINING
    outputs = list_outputs(choices, phases)
    code = _core.emit(**_list_arguments(choices, phases, outputs), readers=list(readers))
    n_model_outputs, workers = len(problem.graph.outputs), prod(problem.factors)
    return PlannedProgram(
        code,
        problem.graph,
        outputs,
        n_model_outputs,
        workers,
        phases,
        _find_reducers(problem),
        readers,
        choices=choices,
    )


def write_short_program(choices: Choices) -> PlannedProgram:
    """Return a program with the transfers of one worker of each kind. Workers of one kind have equal outlines."""
    kinds = write_outlines(choices).workers.tolist()
    return write_program(choices, readers={kinds.index(kind): count for kind, count in Counter(kinds).items()})


@dataclass(frozen=True)
class Outlines:
    """Short forms of the workers' programs, to save memory.

    An outline lists the nodes that a worker runs. It also lists when other workers read the outputs of these nodes
    (`csrc/core/program/outline.h`). Workers with equal outlines share one.

    Attributes
    ----------
    kinds
        The different nodes of all outlines, encoded as a program.
    codes
        The different outlines.
    workers
        The position of each worker's outline in `codes`.
    """

    kinds: npt.NDArray[np.int64]
    codes: Sequence[npt.NDArray[np.int32]]
    workers: npt.NDArray[np.int32]

    @property
    def workers_by_operator(self) -> Mapping[int, Sequence[int]]:
        """For each operator, example workers. Every other worker runs a node equal to one of theirs."""
        tables = read_tables(self.kinds)
        is_copy = tables.node_kind == NodeKind.OPERATOR
        found: dict[int, list[int]] = {}
        columns = (column[is_copy].tolist() for column in (tables.node_id, tables.node_worker))
        for operator, worker in zip(*columns, strict=True):
            found.setdefault(operator, []).append(worker)
        return found


def write_outlines(choices: Choices) -> Outlines:
    """Return the outlines of a training step."""
    return Outlines(*_core.emit_outlines(**_list_arguments(choices, TRAINING, list_outputs(choices, TRAINING))))


def _list_arguments(choices: Choices, phases: Sequence[Phase], outputs: Sequence[OutputShards]) -> dict[str, Any]:
    return {
        "graph": choices.problem.native,
        "factors": list(choices.problem.factors),
        "phases": [int(phase) for phase in phases],
        "outputs": [(output.tensor, list(output.layout)) for output in outputs],
        **choices.native,
    }


def _find_reducers(problem: Problem) -> dict[int, str]:
    return {
        tensor: written.reducer
        for operator, access in zip(problem.graph.operators, problem.accesses, strict=True)
        for tensor, written in zip(operator.outputs, access.outputs, strict=True)
        if written.reducer != "Sum"
    }


def list_outputs(choices: Choices, phases: Sequence[Phase]) -> tuple[OutputShards, ...]:
    """Return all results of a program and how they are split.

    The model's outputs come first, then gradients and new values of variables.
    """
    graph = choices.problem.graph
    outputs = [OutputShards(t, tuple(choices.layout(t))) for t in graph.outputs]
    if Phase.BACKWARD in phases:
        for parameter, gradient in graph.gradients.items():
            aligned = parameter if parameter in graph.updated else gradient
            outputs.append(OutputShards(gradient, tuple(choices.layout(aligned))))
    if Phase.UPDATE in phases:
        carried = ((carry.tensor, value) for carry in graph.carries for value in carry.values)
        for variable, value in (*sorted(graph.next_values.items()), *carried):
            outputs.append(OutputShards(value, tuple(choices.layout(variable))))
    return tuple(outputs)
