"""From the choices of a plan to a program (paper section 6): the native core writes it down, by `csrc/core/program/program.h`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from tofu import _core
from tofu.graph import Phase
from tofu.search import Choices, Problem

Layout = tuple[int, ...]


@dataclass(frozen=True)
class OutputShards:
    """One whole result of a program: a tensor whose shards, in a layout, are the outputs of the workers, one each."""

    tensor: int
    layout: Layout


@dataclass(frozen=True)
class Program:
    """What every worker runs, without names and attributes.

    Attributes
    ----------
    code
        The copies of operators and the fetches in the order of execution, as `csrc/core/program/program.h` encodes them.
    outputs
        The whole results, the model's own first.
    n_model_outputs
        How many are the model's own; the others are gradients.
    workers
        How many there are.
    phases
        Those whose operators run.
    """

    code: npt.NDArray[np.int64]
    outputs: tuple[OutputShards, ...]
    n_model_outputs: int
    workers: int
    phases: tuple[Phase, ...]

    def __str__(self) -> str:
        phases = ", ".join(phase.name.lower() for phase in self.phases)
        return f"a program of {phases} over {self.workers} workers: {len(self.outputs)} results, {self.code.nbytes} bytes of code"


def write_program(problem: Problem, choices: Choices, *, inference: bool = False) -> Program:
    """What every worker runs for a plan: the whole step, or the forward operators alone, over the same shards."""
    phases = (Phase.FORWARD,) if inference else (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
    outputs = list_outputs(problem, choices, phases)
    code = _core.emit(
        problem.native,
        list(problem.factors),
        phases=[int(phase) for phase in phases],
        outputs=[(output.tensor, list(output.layout)) for output in outputs],
        **choices.native,
    )
    return Program(code, outputs, len(problem.graph.outputs), prod(problem.factors), phases)


def list_outputs(problem: Problem, choices: Choices, phases: Sequence[Phase]) -> tuple[OutputShards, ...]:
    """The model's outputs, and where there is a backward phase the gradients: in the parameter's layout if it is updated."""
    graph = problem.graph
    outputs = [OutputShards(t, tuple(choices.layout(t))) for t in graph.outputs]
    if Phase.BACKWARD in phases:
        for parameter, gradient in graph.gradients.items():
            aligned = parameter if parameter in graph.updated else gradient
            outputs.append(OutputShards(gradient, tuple(choices.layout(aligned))))
    return tuple(outputs)
