"""The decisions of a search. `Choices` refers to tensors and operators by number, `NamedChoices` by name."""

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
    """Splits of some operators and tensors that a search may not change.

    Each list has an axis or a dimension for each prime factor of the number of workers (a *round*). FREE lets the
    search choose.
    """

    operators: dict[int, list[int]]
    tensors: dict[int, list[int]]


class NativeChoices(TypedDict):
    """The decisions of a plan, as the keyword arguments that functions in `tofu._core` (native code) take."""

    operators: ChoiceArray
    tensors: ChoiceArray
    kept: tuple[int, ...]
    reread: tuple[int, ...]


@dataclass(frozen=True)
class Choices:
    """The decisions of a plan: how each operator and each tensor is split.

    Attributes
    ----------
    operators, tensors
        The split in each round: `operators[o, round]` is an axis, and `tensors[t, round]` is a dimension. -1 means
        replicated. The last rows of `operators` are weight updates.
    kept
        Tensors that a worker reads from other workers only once, and keeps until their last use.
    reread
        Tensors that workers read from each other again for each operator.
    """

    problem: Problem
    operators: ChoiceArray
    tensors: ChoiceArray
    kept: tuple[int, ...] = ()
    reread: tuple[int, ...] = ()

    @property
    def native(self) -> NativeChoices:
        """The decisions as keyword arguments for functions in `tofu._core`."""
        return {"operators": self.operators, "tensors": self.tensors, "kept": self.kept, "reread": self.reread}

    def layout(self, tensor: int) -> list[int]:
        """Return the dimension of `tensor` that each round splits, or -1 if the round replicates it."""
        return [int(dimension) for dimension in self.tensors[tensor]]

    def is_same(self, other: Choices) -> bool:
        """Return True if `other` contains the same decisions."""
        arrays = ((self.operators, other.operators), (self.tensors, other.tensors))
        return (self.kept, self.reread) == (other.kept, other.reread) and all(np.array_equal(*pair) for pair in arrays)

    def apply_to(self, problem: Problem) -> Choices:
        """Return these decisions for another problem with the same graph."""
        return replace(self, problem=problem)


def make_choices(
    problem: Problem,
    operators: Sequence[Sequence[int]],
    tensors: Sequence[Sequence[int]],
    kept: Sequence[int] = (),
    reread: Sequence[int] = (),
) -> Choices:
    """Build `Choices` from the splits of all operators and tensors. A weight's update is split like the weight."""
    rows, layouts = (
        np.array(numbers, np.int32).reshape(len(numbers), len(problem.factors)) for numbers in (operators, tensors)
    )
    updates = layouts[[variable for variable, _ in problem.graph.updates]]
    return Choices(problem, np.concatenate([rows, updates]), layouts, tuple(kept), tuple(reread))


@dataclass(frozen=True)
class NamedChoices:
    """The decisions of a plan, by the names of operators and tensors.

    If smaller operators replace an operator, only the original operator is listed.
    """

    tensors: Mapping[str, DimensionChoice]
    operators: Mapping[str, AxisChoice]
    kept: tuple[str, ...] = ()
    reread: tuple[str, ...] = ()


def name_choices(choices: Choices) -> NamedChoices:
    """Return the same decisions, with names instead of numbers."""
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
    """Return the names of the tensors with these numbers."""
    return tuple(graph.tensors[tensor].name for tensor in tensors)
