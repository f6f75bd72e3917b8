"""Calls of the searches in native code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, TypeVar

from tofu import _core
from tofu.errors import InfeasibleError, PlanError
from tofu.search.choices import Choices, FixedChoices
from tofu.search.native import restore_names
from tofu.search.problem import Problem, refuse_excess
from tofu.validation import show

DEFAULT_SEARCH_SECONDS = 10.0
LONGEST_SEARCH_SECONDS = 10**7  # four months

Progress = Callable[[str, int, int], None]
"""A function of the stage, the best plan's bytes (-1 before the first) and the lower bound. An error stops the search."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class Effort:
    """Limits of a search: seconds of work of the exact search, and a callback that shows progress."""

    seconds: float = DEFAULT_SEARCH_SECONDS
    progress: Progress | None = None

    def take(self, share: float) -> Effort:
        """Return a share of the effort, from 0 to 1."""
        return replace(self, seconds=share * self.seconds)


DEFAULT_EFFORT = Effort()


def read_seconds(seconds: Any) -> float:
    """Return a user's `search_seconds`. Raise PlanError unless it is a number in range."""
    is_number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= LONGEST_SEARCH_SECONDS:
        raise PlanError(
            f"search_seconds is {show(seconds)}; it is the effort of the exact search, in seconds of work: a number from 0 to "
            f"{LONGEST_SEARCH_SECONDS:,}."
        )
    return seconds  # type: ignore[no-any-return]  # unchanged, for files


@dataclass(frozen=True)
class Solution:
    """The decisions of a plan, with the result of the native search that found them.

    `ties` are words for the plans among which the search decided (`Problem.ties`).
    """

    choices: Choices
    result: _core.SearchResult | _core.ExactResult | None = None
    ties: str = ""

    def apply_to(self, problem: Problem) -> Solution:
        """Return the same solution for another problem of the same graph."""
        return replace(self, choices=self.choices.apply_to(problem))

    @property
    def exact(self) -> _core.ExactResult | None:
        """What an exact search has found and proved. None for other searches."""
        return self.result if isinstance(self.result, _core.ExactResult) else None


def solve_exactly(problem: Problem, fixed: FixedChoices, effort: Effort) -> Solution:
    """Find the best plan over all rounds together, with a proof or a lower bound (csrc/core/search/exact.h).

    Raises PlanError if fixed choices contradict each other, and InfeasibleError if the graph is too densely connected.
    """
    factors, costs = list(problem.factors), problem.arrangement.nanoseconds

    def search(graph: _core.Graph) -> _core.ExactResult:
        return _core.search_exact(
            graph,
            factors,
            *fixed,
            effort.seconds,
            effort.progress,
            prices=costs["prices"],
            latencies=costs["latencies"],
        )

    result, searched = _search(problem, fixed, search)
    return Solution(Choices(problem, result.plan.operators, result.plan.tensors), result, searched.ties)


def solve_recursively(problem: Problem, fixed: FixedChoices, effort: Effort) -> Solution:
    """Find the best split for one round after another. Earlier rounds are not changed (section 5.2).

    Raises the errors of `solve_exactly`.
    """
    factors, costs = list(problem.factors), problem.arrangement.nanoseconds

    def report(rounds_done: int, round_bytes: int) -> None:
        if effort.progress is not None:
            effort.progress(f"round {rounds_done}", round_bytes, 0)

    def search(graph: _core.Graph) -> _core.SearchResult:
        return _core.search_recursive(graph, factors, *fixed, report, costs["prices"], costs["latencies"])

    result, searched = _search(problem, fixed, search)
    shares_more = problem.rules.shares_regions or searched.tied_steps.operators != problem.equal.operators
    covered = searched.ties.strip(), "counting each fetch by itself" if shares_more else ""
    return Solution(Choices(problem, result.operators, result.tensors), result, ", ".join(filter(None, covered)))


def solve_greedily(problem: Problem, fixed: FixedChoices) -> Solution:
    """Find the best split for the largest tensor first, then for the operators around it (csrc/core/search/greedy.h).

    Raises the errors of `solve_exactly`.
    """
    result, _ = _search(problem, fixed, lambda graph: _core.search_greedy(graph, list(problem.factors), *fixed))
    return Solution(Choices(problem, result.operators, result.tensors), result)


def complete(problem: Problem, fixed: FixedChoices, *, exactly: bool = False) -> Choices:
    """Return a plan that keeps fixed choices. Everything else is decided round by round or, with `exactly=True`, as is cheapest.

    The search counts bytes, even if the problem describes an interconnect, and may split equal operators differently.
    Raises PlanError if no plan exists.
    """
    asked = problem.native, list(problem.factors), fixed.operators, fixed.tensors
    with refuse_excess(problem):
        try:
            result = _core.search_exact(*asked).plan if exactly else _core.search_recursive(*asked)
        except (ValueError, RuntimeError) as error:
            raise PlanError(f"The plan cannot be carried out: {restore_names(str(error), problem.graph)}") from error
    return Choices(problem, result.operators, result.tensors)


def _search(problem: Problem, fixed: FixedChoices, search: Callable[[_core.Graph], Result]) -> tuple[Result, Problem]:
    """Return the result of a native search, and the problem that was searched.

    If fixed choices differ between equal operators, the search decides for each of these operators separately.
    """
    failure: RuntimeError | None = None
    with refuse_excess(problem):
        try:
            for searched in problem.list_attempts(*fixed):
                result = _attempt(search, searched)
                if not isinstance(result, RuntimeError):
                    return result, searched
                failure = failure or result
        except ValueError:  # the fixed choices differ on tied tensors
            return _search_untied(problem.without_ties(), search)
    raise InfeasibleError(
        f"The search gave up: {restore_names(str(failure), problem.graph)} (hints= fixes choices)"
    ) from failure


def _attempt(search: Callable[[_core.Graph], Result], problem: Problem) -> Result | RuntimeError:
    try:
        return search(problem.search_graph)
    except RuntimeError as error:
        return error


def _search_untied(problem: Problem, search: Callable[[_core.Graph], Result]) -> tuple[Result, Problem]:
    try:
        return search(problem.search_graph), problem
    except (ValueError, RuntimeError) as error:
        raise PlanError(f"The hints cannot be honoured together: {restore_names(str(error), problem.graph)}") from error
