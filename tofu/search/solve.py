"""Calls of the searches in native code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, TypeVar

from tofu import _core
from tofu.errors import InfeasibleError, PlanError
from tofu.search.choices import Choices, FixedChoices
from tofu.search.cost import price
from tofu.search.native import restore_names
from tofu.search.problem import Problem, refuse_excess
from tofu.validation import show

DEFAULT_SEARCH_SECONDS = 10.0
LONGEST_SEARCH_SECONDS = 10**7  # four months
NO_KNOWN_COST = 2**63 - 1
EFFORT_FOR_EQUAL_LAYERS = 0.85
"""Share of the effort for plans that split all repeated layers alike."""

Progress = Callable[[str, int, int], None]
"""A function of the stage, the best plan's bytes (-1 before the first) and the lower bound. If it raises an error, the search stops."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class Effort:
    """Limits of a search, and the plan from which it starts.

    The *recursive search* splits in one round after the other. The *exact search* considers all rounds together.

    Attributes
    ----------
    seconds
        The time limit of the exact search, in seconds.
    start
        A known plan. The exact search returns this plan or a better one.
    known_cost
        The cost of another plan. The exact search ends when it has proved that no plan is cheaper.
    refines_start
        True if the exact search only improves `start`, and runs no recursive search.
    """

    seconds: float = DEFAULT_SEARCH_SECONDS
    progress: Progress | None = None
    start: Choices | None = None
    known_cost: int = NO_KNOWN_COST
    refines_start: bool = False


DEFAULT_EFFORT = Effort()


def read_seconds(seconds: Any) -> float:
    """Return `search_seconds`. Raise PlanError unless it is a number in the allowed range."""
    is_number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= LONGEST_SEARCH_SECONDS:
        raise PlanError(
            f"search_seconds is {show(seconds)}; it is the effort of the exact search, in seconds of work: a number from 0 to "
            f"{LONGEST_SEARCH_SECONDS:,}."
        )
    return seconds  # type: ignore[no-any-return]  # unchanged, for files


@dataclass(frozen=True)
class Proof:
    """A lower bound that a search proves for a set of plans.

    Attributes
    ----------
    lower_bound
        No plan in the set has a lower cost. 0 if the search has proved nothing, None if it can prove nothing.
    among
        The set of plans in words, such as " among plans that treat each repeated layer alike". "" for all plans.
    """

    lower_bound: int | None
    among: str = ""


@dataclass(frozen=True)
class Solution:
    """The decisions of a plan, and the search's proofs. The proof for the largest set of plans comes first.

    `held_bytes` is the peak memory of the exact search.
    """

    choices: Choices
    proofs: tuple[Proof, ...] = ()
    held_bytes: int = 0

    @cached_property
    def cost(self) -> int:
        """The cost of the plan: bytes transferred, or nanoseconds if bandwidths are known."""
        return price(self.choices)

    def apply_to(self, problem: Problem) -> Solution:
        """Return this solution for another problem with the same graph."""
        return replace(self, choices=self.choices.apply_to(problem))


def combine_proofs(solutions: Sequence[Solution]) -> tuple[Proof, ...]:
    """Merge the proofs of several searches: keep the smallest lower bound for each set of plans.

    Sets for which a search has no proof are dropped.
    """
    bounds = [{proof.among: proof.lower_bound for proof in solution.proofs} for solution in solutions]
    covered = [among for among in (bounds[0] if bounds else ()) if all(among in bound for bound in bounds)]
    return tuple(Proof(_find_least([bound[among] for bound in bounds]), among) for among in covered)


def _find_least(bounds: Sequence[int | None]) -> int | None:
    known = [bound for bound in bounds if bound is not None]
    return min(known) if len(known) == len(bounds) else None


def solve_exactly(problem: Problem, fixed: FixedChoices, effort: Effort) -> Solution:
    """Find the best plan for all rounds together, and a lower bound of the cost (csrc/core/search/exact.h).

    Raises PlanError if fixed choices contradict each other, and InfeasibleError if the graph is too densely connected.
    """
    factors, costs = list(problem.factors), problem.arrangement.nanoseconds

    def search(searched: Problem) -> _core.ExactResult:
        nonlocal effort
        share = EFFORT_FOR_EQUAL_LAYERS if searched.layers.operators and searched.period == 1 else 1.0
        result = _core.search_exact(
            searched.search_graph,
            factors,
            *fixed,
            share * effort.seconds,
            effort.progress,
            prices=costs["prices"],
            latencies=costs["latencies"],
            start=None if effort.start is None else (effort.start.operators, effort.start.tensors),
            refines_start=effort.refines_start,
            known_bytes=effort.known_cost,
        )
        start = Choices(problem, result.plan.operators, result.plan.tensors)
        seconds = max(effort.seconds - result.spent_seconds, 0.0)
        effort = replace(effort, seconds=seconds, start=start, refines_start=True)
        return result

    found = _search(problem, fixed, search)
    best = min((result.plan for result, _ in reversed(found)), key=lambda plan: sum(plan.round_bytes))
    proofs = tuple(Proof(result.lower_bound, searched.ties) for result, searched in reversed(found))
    held_bytes = max(result.held_bytes for result, _ in found)
    return Solution(Choices(problem, best.operators, best.tensors), proofs, held_bytes)


def solve_recursively(problem: Problem, fixed: FixedChoices, effort: Effort) -> Solution:
    """Find the best split of each round in turn, without changing earlier rounds (section 5.2).

    Raises PlanError if fixed choices contradict each other, and InfeasibleError if the graph is too densely connected.
    """
    factors, costs = list(problem.factors), problem.arrangement.nanoseconds

    def report(rounds_done: int, round_bytes: int) -> None:
        if effort.progress is not None:
            effort.progress(f"round {rounds_done}", round_bytes, 0)

    def search(searched: Problem) -> _core.SearchResult:
        return _core.search_recursive(
            searched.search_graph, factors, *fixed, report, costs["prices"], costs["latencies"]
        )

    result, searched = min(reversed(_search(problem, fixed, search)), key=lambda pair: sum(pair[0].round_bytes))
    shares_more = problem.rules.shares_regions or searched.tied_steps.operators != problem.equal.operators
    covered = searched.ties.strip(), "counting each fetch by itself" if shares_more else ""
    proof = Proof(None, ", ".join(filter(None, covered)))
    return Solution(Choices(problem, result.operators, result.tensors), (proof,))


def solve_greedily(problem: Problem, fixed: FixedChoices) -> Solution:
    """Find the best split for the largest tensor first, then for the operators around it (csrc/core/search/greedy.h).

    Raises PlanError if fixed choices contradict each other, and InfeasibleError if the graph is too densely connected.
    """

    def search(searched: Problem) -> _core.SearchResult:
        return _core.search_greedy(searched.search_graph, list(problem.factors), *fixed)

    result, _ = _search(problem, fixed, search)[-1]
    return Solution(Choices(problem, result.operators, result.tensors))


def complete(problem: Problem, fixed: FixedChoices, *, exactly: bool = False) -> Choices:
    """Find a plan that contains the fixed choices. Raise PlanError if no such plan exists.

    If `exactly` is True, use the exact search. Otherwise, use the recursive search.
    """
    request = problem.native, list(problem.factors), fixed.operators, fixed.tensors
    with refuse_excess(problem):
        try:
            result = _core.search_exact(*request).plan if exactly else _core.search_recursive(*request)
        except (ValueError, RuntimeError) as error:
            raise PlanError(f"The plan cannot be carried out: {restore_names(str(error), problem.graph)}") from error
    return Choices(problem, result.operators, result.tensors)


def _search(problem: Problem, fixed: FixedChoices, search: Callable[[Problem], Result]) -> list[tuple[Result, Problem]]:
    found: list[tuple[Result, Problem]] = []
    failure: RuntimeError | None = None
    with refuse_excess(problem):
        try:
            for searched in problem.list_attempts(*fixed):
                if found and not searched.layers.operators:
                    break
                try:
                    found.append((search(searched), searched))
                except RuntimeError as error:
                    failure = failure or error
        except ValueError:  # the fixed choices differ on tied tensors
            return [_search_untied(problem.without_ties(), search)]
        except MemoryError:
            if not found:
                raise
    if found:
        return found
    raise InfeasibleError(
        f"The search gave up: {restore_names(str(failure), problem.graph)} (hints= fixes choices)"
    ) from failure


def _search_untied(problem: Problem, search: Callable[[Problem], Result]) -> tuple[Result, Problem]:
    try:
        return search(problem), problem
    except (ValueError, RuntimeError) as error:
        raise PlanError(f"The hints cannot be honoured together: {restore_names(str(error), problem.graph)}") from error
