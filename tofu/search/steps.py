"""Choices by name, as plans have them, and by number: tensor -> the dimension split at each step, operator -> the axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tofu.graph import Graph
from tofu.plan import AxisSteps, Steps
from tofu.search.choices import REPLICATED, Choices
from tofu.search.problem import Problem


def name_tensors(graph: Graph, tensors: Sequence[int]) -> tuple[str, ...]:
    """The names of tensors."""
    return tuple(graph.tensors[tensor].name for tensor in tensors)


def list_tensor_steps(problem: Problem, choices: Choices) -> dict[str, Steps]:
    """Tensor name -> dimension split at each step."""
    return {
        tensor.name: tuple(None if d == REPLICATED else int(d) for d in choices.tensors[position])
        for position, tensor in enumerate(problem.graph.tensors)
    }


def list_operator_steps(problem: Problem, choices: Choices) -> dict[str, AxisSteps]:
    """Operator name -> name of the axis split at each step. The inner parts of an operator do as the part with its name."""
    return {
        operator.name: tuple(None if a == REPLICATED else access.axes[a] for a in choices.operators[position])
        for position, (operator, access) in enumerate(zip(problem.graph.operators, problem.accesses, strict=True))
        if not operator.is_inner
    }


def carry_over(problem: Problem, choices: Choices, other: Problem) -> Choices:
    """The choices for another problem, of a graph of the same model, by name: all inner parts of an operator take its choice."""
    graph, axes, layouts = other.graph, list_operator_steps(problem, choices), list_tensor_steps(problem, choices)
    operators = [
        [REPLICATED if axis is None else access.axes.index(axis) for axis in axes[graph.operators[named].name]]
        for named, access in zip(graph.named_parts, other.accesses, strict=True)
    ]
    tensors = [[REPLICATED if d is None else d for d in layouts[tensor.name]] for tensor in graph.tensors]
    kept, reread = (
        [graph.tensor_index[name] for name in name_tensors(problem.graph, listed)]
        for listed in (choices.kept, choices.reread)
    )
    return make_choices(other, operators, tensors, kept, reread)


def make_choices(
    problem: Problem,
    operators: Sequence[Sequence[int]],
    tensors: Sequence[Sequence[int]],
    kept: Sequence[int] = (),
    reread: Sequence[int] = (),
) -> Choices:
    """Choices of a row for each operator of the graph and for each tensor: a weight update takes its weight's layout."""
    shape = (-1, len(problem.factors))
    rows, layouts = (np.array(numbers, np.int32).reshape(shape) for numbers in (operators, tensors))
    updates = layouts[[variable for variable, _ in problem.graph.updates]]
    return Choices(np.concatenate([rows, updates]), layouts, tuple(kept), tuple(reread))
