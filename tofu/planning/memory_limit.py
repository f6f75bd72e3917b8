"""Find the plan that transfers the fewest bytes and fits into the memory of a worker (`memory_limit=`).

Replicating a tensor saves communication and costs memory. So the search may replicate any tensor, but pays a price for
each stored byte (a Lagrange multiplier of the memory limit). It minimises

    bytes transferred + price * bytes held

At price 0, the search replicates whatever saves communication. At a high price, it splits everything. Memory falls as
the price rises, so bisection finds the lowest price at which the plan fits:

1. Find a plan for each price, and measure its memory.
2. The plan at the next lower price replicates more tensors and does not fit. Replicate as many of these tensors as fit,
   the smallest first.
3. If memory is left, workers keep elements that they have read, for later operators such as the backward pass.
4. If no plan fits, workers read some tensors again in each time step of a recurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np

from tofu.engine import Measured
from tofu.formatting import format_bytes
from tofu.planning.fitting import explain_none, find_fitting
from tofu.planning.progress import search_progress, show_progress
from tofu.search import Choices, Problem
from tofu.search.algorithms import ALGORITHMS, Algorithm, Hints
from tofu.search.choices import REPLICATED
from tofu.search.cost import list_worth_keeping, list_worth_rereading, price
from tofu.search.geometry import count_shard_bytes
from tofu.search.rounds import factorize
from tofu.search.solve import Effort, Solution
from tofu.search.topology import Arrangement
from tofu.sizes import format_limit

Measure = Callable[[Choices], Measured]

HIGHEST_PRICE = 4.0  # bytes transferred per byte held; high enough to split everything
LOWEST_PRICE = 2.0**-9
BISECTIONS = 8
REFINEMENTS = 5
SEARCHES_OF_A_TRADEOFF = 1 + BISECTIONS + REFINEMENTS  # at most, between the two end points of a `Tradeoff`
NEARLY = 1.1  # more prices are tried if plans exceed the limit by less than this factor
KEEPING_PLANS = 3  # number of cheapest plans that step 3 improves


@dataclass(frozen=True)
class Point:
    """A plan with its cost and the memory of each worker. The cost is in bytes or, with a topology, in nanoseconds."""

    choices: Choices
    cost: int
    memory: Measured

    @property
    def most_bytes(self) -> int:
        """The peak memory in bytes of the worker that needs most."""
        return max(self.memory.peak_bytes)


def measure_plan(choices: Choices, measure: Measure) -> Point:
    """Return a plan with its cost and memory."""
    return Point(choices, price(choices), measure(choices))


@dataclass
class Tradeoff:
    """Plans for one model. Each minimises bytes transferred + price * bytes stored, for a different price.

    `whole_effort` limits the searches at the highest price and at price 0. `effort` limits all other searches.
    """

    problem: Problem
    measure: Measure
    algorithm: Algorithm
    hints: Hints | None
    effort: Effort
    whole_effort: Effort
    points: list[Point] = field(default_factory=list)
    unlimited: Solution | None = None
    """The solution at price 0. Its lower bound is valid for every memory limit."""

    def split_all(self) -> Point:
        """Add a plan that splits all tensors except small ones."""
        return self._add(self._solve_with_all(lambda problem: problem).choices)

    def replicate_freely(self) -> Point:
        """Add the plan with the least communication, whatever memory it needs."""
        self.unlimited = self._solve_with_all(lambda problem: problem.with_memory_price(price=0.0))
        return self._add(self.unlimited.choices)

    def at_price(self, held_price: float, split: frozenset[int] = frozenset()) -> Point:
        """Find a plan for this price of memory, and add it.

        The search minimises bytes transferred + `held_price` * bytes stored. It does not replicate the tensors in
        `split`.
        """
        unit = max(self.problem.arrangement.nanoseconds["prices"], default=1.0)
        return self._add(self._solve(self.problem.with_memory_price(held_price * unit, split), self.effort).choices)

    def _solve_with_all(self, restrict: Callable[[Problem], Problem]) -> Solution:
        even = self.problem.split_evenly()
        if even is not None:
            self._add(self._solve(restrict(even), self.whole_effort).choices)
        return self._solve(restrict(self.problem), self.whole_effort)

    def _solve(self, problem: Problem, effort: Effort) -> Solution:
        with show_progress(self._name_next_plan()), search_progress() as progress:
            return self.algorithm.solve(problem, self.hints, replace(effort, progress=progress))

    def _add(self, choices: Choices) -> Point:
        same_plans = (point for point in self.points if point.choices.is_same(choices))
        with show_progress(self._name_next_plan()):
            point = next(same_plans, None) or measure_plan(choices.apply_to(self.problem), self.measure)
        self.points.append(point)
        return point

    def _name_next_plan(self) -> str:
        return f"plan {len(self.points) + 1} for the memory limit"

    def keep_regions(self, point: Point, tensors: Sequence[int]) -> Point:
        """Add a variant of the plan `point`. In it, workers keep elements of `tensors` that they have read."""
        return self._add(replace(point.choices, kept=tuple(sorted(tensors))))

    def try_more_prices(self) -> None:
        """Add plans at more prices of memory."""
        for held_price in (HIGHEST_PRICE, 1.0, 0.7, 0.5, 0.35, 0.25, 0.12, 0.03, LOWEST_PRICE, 0.0):
            point = self.at_price(held_price)
            candidates = list_worth_keeping(point.choices)
            for count in {len(candidates), (len(candidates) + 1) // 2} - {0}:
                self.keep_regions(point, candidates[:count])

    def find_fitting(self, limit: int) -> Point | None:
        """Return the cheapest plan that needs at most `limit` bytes on every worker, or None."""
        replicated = self.replicate_freely()
        self.split_all()  # may transfer less if the search above ran out of time
        if replicated.most_bytes > limit:
            self._bisect_price(limit, replicated)
            if limit < min(point.most_bytes for point in self.points) <= NEARLY * limit:
                self.try_more_prices()  # other prices may need less memory at the peak
        for point in sorted(self._list_fitting(limit), key=_rank)[:KEEPING_PLANS]:
            self._keep_fitting(point, limit)
        if not self._list_fitting(limit):
            self._reread_fitting(min(self.points, key=lambda point: point.most_bytes), limit)
        return min(self._list_fitting(limit), key=_rank, default=None)

    def _list_fitting(self, limit: int) -> list[Point]:
        return [point for point in self.points if point.most_bytes <= limit]

    def _keep_fitting(self, point: Point, limit: int) -> None:
        candidates = list_worth_keeping(point.choices)

        def fits(count: int) -> bool:
            return self.keep_regions(point, candidates[:count]).most_bytes <= limit

        _bisect_count(0, len(candidates) + 1, len(candidates), fits)

    def _reread_fitting(self, point: Point, limit: int) -> None:
        candidates = list_worth_rereading(point.choices)

        def is_too_large(count: int) -> bool:
            return self._add(replace(point.choices, reread=tuple(sorted(candidates[:count])))).most_bytes > limit

        _bisect_count(0, len(candidates) + 1, len(candidates), is_too_large)

    def _bisect_price(self, limit: int, too_large: Point) -> None:
        low, high = LOWEST_PRICE, HIGHEST_PRICE
        price_too_large = 0.0
        fits = self.at_price(high)
        if fits.most_bytes > limit:
            return
        for _ in range(BISECTIONS):
            middle = (low * high) ** 0.5
            point = self.at_price(middle)
            if point.most_bytes <= limit:
                high, fits = middle, point
            else:
                low, too_large, price_too_large = middle, point, middle
            if np.array_equal(fits.choices.tensors, too_large.choices.tensors):
                return
        self._replicate_more(limit, fits, too_large, price_too_large)

    def _replicate_more(self, limit: int, fitting: Point, too_large: Point, held_price: float) -> None:
        copies, fitting_copies = ((point.choices.tensors == REPLICATED).sum(axis=1) for point in (too_large, fitting))
        sizes = [tensor.size_bytes for tensor in self.problem.graph.tensors]
        candidates = sorted(np.flatnonzero(copies > fitting_copies), key=lambda t: (sizes[t], t))

        def fits(count: int) -> bool:
            return self.at_price(held_price, frozenset(candidates[count:])).most_bytes <= limit

        _bisect_count(0, len(candidates), len(candidates) // 2, fits)


def _rank(point: Point) -> tuple[int, int]:
    return point.cost, point.most_bytes


def _bisect_count(low: int, high: int, first: int, is_low: Callable[[int], bool]) -> None:
    count = first
    for _ in range(REFINEMENTS):
        if high - low < 2:
            return
        low, high = (count, high) if is_low(count) else (low, count)
        count = (low + high) // 2


def explain_misfit(tradeoff: Tradeoff, limit: int) -> str:
    """Explain by how much the smallest plan exceeds the limit, and how many workers are enough."""
    point = min(tradeoff.points, key=lambda point: point.most_bytes)
    worker = point.memory.peak_bytes.index(point.most_bytes)
    problem, workers = point.choices.problem, len(point.memory.peak_bytes)
    bytes_by_variable = list(_list_variable_bytes(point.choices))
    variable_bytes = sum(size for _, size in bytes_by_variable)
    by_size = sorted(bytes_by_variable, key=lambda item: -item[1])
    largest = ", ".join(f"{name} {format_bytes(size)}" for name, size in by_size[:3])
    total_bytes = sum(t.size_bytes for t in problem.graph.tensors if t.exists_before_step)
    return (
        f"No plan over {workers} workers fits into a memory limit of {format_limit(limit)} per worker. The smallest one found needs "
        f"{format_bytes(point.most_bytes)} on worker {worker}, {format_bytes(point.most_bytes - limit)} too much: "
        f"{format_bytes(variable_bytes)} of parameters, states and inputs (the largest: {largest}), "
        f"{format_bytes(point.most_bytes - variable_bytes)} of gradients, activations and buffers. "
        + _advise_workers(tradeoff, limit, max(workers + 1, ceil(total_bytes / limit)))
    )


def _list_variable_bytes(choices: Choices) -> Iterator[tuple[str, int]]:
    for position, tensor in enumerate(choices.problem.graph.tensors):
        if tensor.exists_before_step:
            yield tensor.name, int(count_shard_bytes(choices, position).max())


def _advise_workers(tradeoff: Tradeoff, limit: int, least_workers: int) -> str:
    def plan_for(workers: int) -> Point:
        problem = tradeoff.problem.arrange(Arrangement(factorize(workers)))
        choices = ALGORITHMS["recursive"].solve(problem, effort=tradeoff.effort).choices
        return measure_plan(choices, tradeoff.measure)

    fitting = find_fitting(least_workers, limit, plan_for, lambda point: point.most_bytes)
    if fitting is None:
        return explain_none(tradeoff.problem, limit, least_workers)
    return f"{len(fitting.memory.peak_bytes)} workers would do ({format_bytes(fitting.most_bytes)} each), or a smaller batch."
