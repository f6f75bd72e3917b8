"""Choices by name, as plans have them: tensor -> the dimension split at each step, operator -> the axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tofu.graph import Graph
from tofu.plan import AxisSteps, Steps
from tofu.search.choices import REPLICATED, Choices
from tofu.search.problem import Problem


@dataclass(frozen=True)
class NamedChoices:
    """Choices of all tensors, and of all operators but the inner parts of others, which do as the part with the operator's name."""

    tensors: Mapping[str, Steps]
    operators: Mapping[str, AxisSteps]
    kept: tuple[str, ...] = ()
    reread: tuple[str, ...] = ()


def name_choices(problem: Problem, choices: Choices) -> NamedChoices:
    """The choices for a problem, by name."""
    return NamedChoices(
        list_tensor_steps(problem, choices),
        list_operator_steps(problem, choices),
        name_tensors(problem.graph, choices.kept),
        name_tensors(problem.graph, choices.reread),
    )


def name_tensors(graph: Graph, tensors: Sequence[int]) -> tuple[str, ...]:
    """The names of tensors."""
    return tuple(graph.tensors[tensor].name for tensor in tensors)


def list_tensor_steps(problem: Problem, choices: Choices) -> dict[str, Steps]:
    """Tensor name -> dimension split at each step."""
    return {
        tensor.name: tuple(None if d == REPLICATED else d for d in dimensions)
        for tensor, dimensions in zip(problem.graph.tensors, choices.tensors.tolist(), strict=True)
    }


def list_operator_steps(problem: Problem, choices: Choices) -> dict[str, AxisSteps]:
    """Operator name -> name of the axis split at each step. The inner parts of an operator do as the part with its name."""
    rows = choices.operators.tolist()  # those of updates come last
    return {
        operator.name: tuple(None if a == REPLICATED else access.axes[a] for a in axes)
        for operator, access, axes in zip(problem.graph.operators, problem.accesses, rows, strict=False)
        if not operator.is_inner
    }
