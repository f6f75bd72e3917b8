"""The decisions of a search, by number (`Choices`) and by name (`NamedChoices`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from tofu.graph import Graph
from tofu.plan import AxisChoice, DimensionChoice
from tofu.search.problem import Problem

REPLICATED = -1
FREE = -2  # the search decides

ChoiceArray = npt.NDArray[np.int32]


class FixedChoices(NamedTuple):
    """Choices that a search may not change: each operator's axis and each tensor's dimension, by round.

    The search decides for rounds that are FREE, and for operators and tensors that are left out.
    """

    operators: dict[int, list[int]]
    tensors: dict[int, list[int]]


class NativeChoices(TypedDict):
    """Choices as the arguments of a native function."""

    operators: ChoiceArray
    tensors: ChoiceArray
    kept: tuple[int, ...]
    reread: tuple[int, ...]


@dataclass(frozen=True)
class Choices:
    """The choice of each operator, and the layout of each tensor.

    Attributes
    ----------
    problem
        The search problem.
    operators, tensors
        The axis `operators[o, round]` and the dimension `tensors[t, round]`, by number; -1 if replicated. The graph's
        operators come first, then its weight updates.
    kept
        Tensors whose fetched regions stay on a worker until their last use. Fetched regions of other tensors are shared
        only by operators of one group, such as equal time steps.
    reread
        Tensors whose regions are fetched again for each operator.
    """

    problem: Problem
    operators: ChoiceArray
    tensors: ChoiceArray
    kept: tuple[int, ...] = ()
    reread: tuple[int, ...] = ()

    @property
    def native(self) -> NativeChoices:
        """Arguments for `tofu._core`."""
        return {"operators": self.operators, "tensors": self.tensors, "kept": self.kept, "reread": self.reread}

    def layout(self, tensor: int) -> list[int]:
        """Return the dimension of a tensor that each round splits."""
        return [int(dimension) for dimension in self.tensors[tensor]]

    def is_same(self, other: Choices) -> bool:
        """Return True if all choices and layouts are equal."""
        arrays = ((self.operators, other.operators), (self.tensors, other.tensors))
        return (self.kept, self.reread) == (other.kept, other.reread) and all(np.array_equal(*pair) for pair in arrays)

    def apply_to(self, problem: Problem) -> Choices:
        """Return the same choices for another problem of the same graph."""
        return replace(self, problem=problem)


def make_choices(
    problem: Problem,
    operators: Sequence[Sequence[int]],
    tensors: Sequence[Sequence[int]],
    kept: Sequence[int] = (),
    reread: Sequence[int] = (),
) -> Choices:
    """Return choices for a graph's operators and tensors. A weight update takes its weight's layout."""
    rows, layouts = (
        np.array(numbers, np.int32).reshape(len(numbers), len(problem.factors)) for numbers in (operators, tensors)
    )
    updates = layouts[[variable for variable, _ in problem.graph.updates]]
    return Choices(problem, np.concatenate([rows, updates]), layouts, tuple(kept), tuple(reread))


@dataclass(frozen=True)
class NamedChoices:
    """Choices by name, as plans store them.

    An operator that was replaced by several smaller ones has one choice, under its own name.
    """

    tensors: Mapping[str, DimensionChoice]
    operators: Mapping[str, AxisChoice]
    kept: tuple[str, ...] = ()
    reread: tuple[str, ...] = ()


def name_choices(choices: Choices) -> NamedChoices:
    """Return the same choices by name."""
    problem = choices.problem
    graph = problem.graph
    rows = choices.operators.tolist()  # the rows of weight updates come last
    return NamedChoices(
        {
            tensor.name: tuple(None if d == REPLICATED else d for d in dimensions)
            for tensor, dimensions in zip(graph.tensors, choices.tensors.tolist(), strict=True)
        },
        {
            operator.name: tuple(None if a == REPLICATED else access.axes[a] for a in axes)
            for operator, access, axes in zip(graph.operators, problem.accesses, rows, strict=False)
            if not operator.is_inner
        },
        name_tensors(graph, choices.kept),
        name_tensors(graph, choices.reread),
    )


def name_tensors(graph: Graph, tensors: Sequence[int]) -> tuple[str, ...]:
    """Return the names of tensors."""
    return tuple(graph.tensors[tensor].name for tensor in tensors)
