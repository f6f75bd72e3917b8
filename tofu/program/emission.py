"""Generation of a program from the choices of a plan (section 6), by the native core (`csrc/core/program/program.h`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tofu import _core
from tofu.graph import Phase
from tofu.program.program import OutputShards, Program
from tofu.search import Choices, Problem

TRAINING = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
OUTLINED_TOGETHER = 256
"""The number of workers whose outlines are in memory at once. Emission visits all workers for each such batch."""


@dataclass(frozen=True, repr=False)
class PlannedProgram(Program):
    """A program with the choices that it carries out.

    Attributes
    ----------
    choices
        The choices for the program's graph.
    kernel_bytes
        The result of `Backend.find_kernel_bytes`, which simulations use.
    """

    choices: Choices = field(kw_only=True)
    kernel_bytes: Mapping[int, int] | None = field(default=None, kw_only=True)

    @property
    def problem(self) -> Problem:
        """The problem that the choices solve."""
        return self.choices.problem


def write_program(choices: Choices, *, inference: bool = False) -> PlannedProgram:
    """Write the program of all workers, for a whole training step or, with `inference=True`, for its forward operators only."""
    problem = choices.problem
    phases = (Phase.FORWARD,) if inference else TRAINING
    outputs = list_outputs(choices, phases)
    code = _core.emit(**_list_arguments(choices, phases, outputs))
    n_model_outputs, workers = len(problem.graph.outputs), prod(problem.factors)
    reducers = _find_reducers(problem)
    return PlannedProgram(code, problem.graph, outputs, n_model_outputs, workers, phases, reducers, choices=choices)


def write_outlines(choices: Choices) -> Iterator[npt.NDArray[np.int64]]:
    """Yield each worker's outline of the program of a training step.

    An outline has the worker's nodes without the pieces of its fetches, and tells when other workers read its entries
    (`csrc/core/program/outline.h`). The outlines of many workers take less time and memory than their program.
    """
    workers = prod(choices.problem.factors)
    arguments = _list_arguments(choices, TRAINING, list_outputs(choices, TRAINING))
    for begin in range(0, workers, OUTLINED_TOGETHER):
        yield from _core.emit_outlines(**arguments, begin=begin, end=min(begin + OUTLINED_TOGETHER, workers))


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
    """Return the results of a program, with their layouts.

    The model's outputs come first. In training, gradients follow, in the layouts of the parameters that they update, and
    the next values of variables and loop carries, in the variables' layouts.
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
