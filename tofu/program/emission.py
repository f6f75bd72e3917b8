"""From the choices of a plan to a program (paper section 6): the native core writes it down, by `csrc/core/program/program.h`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tofu import _core
from tofu.graph import Phase
from tofu.program.program import OutputShards, Program
from tofu.search import Choices, Problem


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
    n_model_outputs, workers = len(problem.graph.outputs), prod(problem.factors)
    return Program(code, problem.graph, outputs, n_model_outputs, workers, phases, _find_reducers(problem))


def _find_reducers(problem: Problem) -> dict[int, str]:
    """The tensors whose partial results are not added, and what is done instead."""
    return {
        tensor: written.reducer
        for operator, access in zip(problem.graph.operators, problem.accesses, strict=True)
        for tensor, written in zip(operator.outputs, access.outputs, strict=True)
        if written.reducer != "Sum"
    }


def list_outputs(problem: Problem, choices: Choices, phases: Sequence[Phase]) -> tuple[OutputShards, ...]:
    """The model's outputs; in training the gradients, in the parameter's layout if it is updated, and the next values of variables and
    of what loops carry, in the variable's layout.
    """
    graph = problem.graph
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
