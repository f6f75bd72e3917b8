"""The table of algorithms that find plans.

To add an algorithm, write a function in a new file, a line in this table, and a test. The command line, the docstring
of `tofu.partition` and error messages read the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tofu import _core
from tofu.errors import InfeasibleError, PlanError
from tofu.search.baselines import plan_allrow, plan_equalchop, plan_icml18, plan_spartan
from tofu.search.choices import FixedChoices
from tofu.search.feasibility import explain_unsplit_round
from tofu.search.hand_plans import plan_data_parallel, plan_megatron
from tofu.search.hints import resolve_hints
from tofu.search.problem import Problem
from tofu.search.rounds import factorize, list_orders
from tofu.search.solve import DEFAULT_EFFORT, Effort, Solution, solve_exactly, solve_recursively
from tofu.validation import show

Hints = Mapping[str, Any]
NOTHING_PROVED = "the best plan found; nothing is proved"
BY_HAND = "made by hand; nothing is proved"


@dataclass(frozen=True)
class Algorithm:
    """An algorithm that finds plans (how each operator and each tensor is split).

    Attributes
    ----------
    name
        The name that users pass as `algorithm=`.
    run
        Function that finds a plan. Hints (splits that the user fixes) override the algorithm's own decisions.
    guarantee
        Words about all plans that the algorithm finds, in addition to what a search proves.
    is_search
        True if the algorithm tries several orders of the prime factors of the number of workers, and can respect a
        memory limit. False for baselines.
    splits_once
        True if the algorithm splits each operator and each tensor only once, over all workers.
    """

    name: str
    run: Callable[[Problem, Hints, Effort], Solution]
    guarantee: str = ""
    is_search: bool = False
    splits_once: bool = False

    def solve(
        self, problem: Problem, hints: Hints | None = None, effort: Effort = DEFAULT_EFFORT, replicates: bool = False
    ) -> Solution:
        """Find a plan for a problem.

        If a round of the cheapest plan replicates all operators, the problem is solved again without replicated
        operators, and nothing is proved. If nothing can be split in a round, raise InfeasibleError, unless `replicates`
        is true: workers then repeat computations. Also raises InfeasibleError if the algorithm does not apply to the
        model, and PlanError if hints are impossible.
        """
        solution = self.run(problem, hints or {}, effort).apply_to(problem)
        unsplit_round = explain_unsplit_round(solution.choices)
        if unsplit_round and problem.rules.repeats_operators:
            solution = Solution(self.run(problem.split_all(), hints or {}, effort).choices).apply_to(problem)
            unsplit_round = explain_unsplit_round(solution.choices)
        if unsplit_round and not replicates:
            raise InfeasibleError(unsplit_round)
        return solution

    def list_orders(self, workers: int) -> tuple[tuple[int, ...], ...]:
        """Return the orders of the prime factors of `workers` to try. The paper's order, largest first, comes first.

        A search tries up to `MOST_ORDERS` orders, because a split over 2 and then 3 workers may transfer less than 3
        and then 2.
        """
        if self.splits_once:
            return ((workers,),)
        factors = factorize(workers)
        return list_orders(factors) if self.is_search else (factors,)

    def describe_optimality(
        self, solution: Solution, cost: int, lower_bound: int | None = None, orders: str = ""
    ) -> str:
        """Return a sentence about how close to optimal a plan of this algorithm is known to be.

        `lower_bound` is valid for all searched orders of the prime factors. `orders` names them if others were left
        out.
        """
        if cost == 0:
            return describe_gap(cost, 0)
        if solution.exact is not None:
            proof = describe_proof(solution.exact, solution.ties, lower_bound)
            return ", ".join(filter(None, (proof, self.guarantee))) + (orders if proof != NOTHING_PROVED else "")
        if solution.result is not None and self.guarantee:
            return ", ".join(filter(None, (self.guarantee, solution.ties))) + orders
        return self.guarantee or NOTHING_PROVED


def _by_number(
    solve: Callable[[Problem, FixedChoices, Effort], Solution],
) -> Callable[[Problem, Hints, Effort], Solution]:
    return lambda problem, hints, effort: solve(problem, resolve_hints(problem, hints), effort)


ALGORITHMS: Mapping[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "recursive",
            _by_number(solve_recursively),
            "each round optimal, given the rounds before",
            is_search=True,
        ),
        Algorithm("exact", _by_number(solve_exactly), is_search=True),
        Algorithm(
            "allrow-greedy",
            plan_allrow,
            "every tensor along its first dimension; each operator optimal, given that",
            splits_once=True,
        ),
        Algorithm("spartan", plan_spartan, "greedy, the largest tensor first; nothing is proved", splits_once=True),
        Algorithm("equalchop", plan_equalchop, "everything split once; optimal, given that", splits_once=True),
        Algorithm("icml18", plan_icml18, "without output reduction"),
        Algorithm("data-parallel", plan_data_parallel, BY_HAND),
        Algorithm("megatron", plan_megatron, BY_HAND),
    )
}
DEFAULT_ALGORITHM = "exact"
SEARCHES = tuple(name for name, algorithm in ALGORITHMS.items() if algorithm.is_search)
BASELINES = tuple(name for name, algorithm in ALGORITHMS.items() if not algorithm.is_search)


def find_algorithm(name: Any) -> Algorithm:
    """Return the algorithm with this name. Raise PlanError if the name is unknown."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise PlanError(
            f"algorithm is {show(name)}; the searches are {' and '.join(map(repr, SEARCHES))}, "
            f"the baselines {', '.join(map(repr, BASELINES))}."
        )
    return ALGORITHMS[name]


def describe_proof(result: _core.ExactResult, among: str = "", lower_bound: int | None = None) -> str:
    """Return a sentence about what an exact search proves of its plan. Percentages are rounded up.

    `among` names the plans that the search covers. Pass the smallest `lower_bound` if there were several searches.
    """
    bound = result.lower_bound if lower_bound is None else min(result.lower_bound, lower_bound)
    return describe_gap(sum(result.plan.round_bytes), bound, among) or NOTHING_PROVED


def describe_gap(cost: int, bound: int, among: str = "") -> str:
    """Return words for how far `cost` is above a lower bound, such as "optimal", or "" if nothing is known.

    `among` names the plans for which the bound is valid.
    """
    if cost == 0:
        return "optimal"
    if bound <= 0:
        return ""
    if bound >= cost:
        return f"optimal{among}"
    hundredths = -((bound - cost) * 10_000 // bound)
    return f"within {Decimal(hundredths) / 100} % of a proven lower bound{among}"
