"""The table of algorithms that find plans.

To add an algorithm, write a function in a new file, a line in this table, and a test. The command line, the docstring
of `tofu.partition` and error messages read the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tofu.errors import InfeasibleError, PlanError
from tofu.search.baselines import plan_allrow, plan_equalchop, plan_icml18, plan_spartan
from tofu.search.choices import FixedChoices
from tofu.search.feasibility import explain_unsplit_round
from tofu.search.hand_plans import plan_data_parallel, plan_megatron
from tofu.search.hints import resolve_hints
from tofu.search.problem import Problem
from tofu.search.rounds import factorize, list_orders
from tofu.search.solve import DEFAULT_EFFORT, Effort, Proof, Solution, solve_exactly, solve_recursively
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
        Function that finds a plan. The algorithm respects hints (splits that the user fixes).
    guarantee
        A sentence about the quality of the algorithm's plans.
    is_search
        True for searches, which try several orders of the rounds. False for baselines.
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

        With `replicates=True`, workers may repeat computations. Raises InfeasibleError if the model cannot be split, or
        the algorithm does not apply. Raises PlanError if hints are impossible.
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
        """Return the orders in which to split by the prime factors of `workers`: (3, 2) and (2, 3) for 6.

        The paper uses the first order. A search tries up to `MOST_ORDERS` orders, and a baseline tries only one.
        """
        if self.splits_once:
            return ((workers,),)
        factors = factorize(workers)
        return list_orders(factors) if self.is_search else (factors,)

    def describe_optimality(self, cost: int, proofs: Sequence[Proof], orders: str = "") -> str:
        """Describe how close to optimal a plan with this cost is, by the lower bounds `proofs`.

        `orders` is added at the end, such as ", of 1 of 2 orders of the rounds".
        """
        if cost == 0:
            return describe_gap(cost, 0)
        proof = choose_proof(cost, proofs)
        if proof is None:
            return self.guarantee or NOTHING_PROVED
        if proof.lower_bound is None:
            return ", ".join(filter(None, (self.guarantee, proof.among))) + orders
        gap = describe_gap(cost, proof.lower_bound, proof.among)
        return ", ".join(filter(None, (gap or NOTHING_PROVED, self.guarantee))) + (orders if gap else "")


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


def choose_proof(cost: int, proofs: Sequence[Proof]) -> Proof | None:
    """Return the proof with the highest lower bound that is at most `cost`, or None if there are no proofs."""
    usable = [proof for proof in proofs if proof is proofs[0] or (proof.lower_bound or 0) <= cost]
    return max(usable, key=lambda proof: proof.lower_bound or 0, default=None)


def describe_gap(cost: int, bound: int, among: str = "") -> str:
    """Return a text such as "optimal" or "within 2 % of a proven lower bound". Return "" if nothing is proved.

    The text ends with `among`, the plans that were compared, such as " among plans with ...".
    """
    if cost == 0:
        return "optimal"
    if bound <= 0:
        return ""
    if bound >= cost:
        return f"optimal{among}"
    hundredths = -((bound - cost) * 10_000 // bound)
    return f"within {Decimal(hundredths) / 100} % of a proven lower bound{among}"
