"""How plans can be found by name: the searches, the baselines, and what each proves of the plan that it finds."""

from __future__ import annotations

from itertools import permutations
from math import ceil, inf
from typing import Any

from tofu import _core
from tofu.errors import PlanError
from tofu.search.choices import factorize

SEARCHES = ("recursive", "exact")
# Of these the first three split everything along one axis or dimension, over all workers at once (section 7.3 of the paper).
ONE_STEP_BASELINES = ("allrow-greedy", "spartan", "equalchop")
BASELINES = (*ONE_STEP_BASELINES, "icml18", "data-parallel", "megatron")
ALGORITHMS = (*SEARCHES, *BASELINES)
DEFAULT_ALGORITHM = "exact"
DEFAULT_SEARCH_SECONDS = 10.0


def check_algorithm(algorithm: str, seconds: float) -> None:
    """Raise PlanError for an algorithm that there is not, or a time that is none."""
    if algorithm not in ALGORITHMS:
        raise PlanError(
            f"algorithm is {algorithm!r}; the searches are {' and '.join(map(repr, SEARCHES))}, "
            f"the baselines {', '.join(map(repr, BASELINES))}."
        )
    if not 0 <= seconds < inf:
        raise PlanError(f"search_seconds is {seconds}; it is the effort of the exact search, in seconds of work.")


def choose_factors(algorithm: str, workers: int) -> tuple[int, ...]:
    """The steps in which an algorithm splits: the prime factors, or all workers at once."""
    return (workers,) if algorithm in ONE_STEP_BASELINES else factorize(workers)


def list_factor_orders(algorithm: str, workers: int) -> tuple[tuple[int, ...], ...]:
    """The orders of the steps that an algorithm looks at: all for a search, 2 x 3 may move less than 3 x 2; the paper's own comes first."""
    factors = choose_factors(algorithm, workers)
    return tuple(sorted(set(permutations(factors)), reverse=True)) if algorithm in SEARCHES else (factors,)


def describe_optimality(result: Any, has_equal_steps: bool = False, lower_bound: int | None = None) -> str:
    """How good a native result is known to be.

    The percentage is rounded up: the plan is no further than that from the best one. Where time steps are coalesced
    (`has_equal_steps`), the proof is about the plans that treat equal steps alike. `lower_bound` takes the place of the result's own
    where the result is the best of several searches, each with a bound.
    """
    if not isinstance(result, _core.ExactResult):
        return "each step optimal, given the steps before"
    among = " among plans that treat equal time steps alike" if has_equal_steps else ""
    found = sum(result.plan.step_bytes)
    bound = result.lower_bound if lower_bound is None else min(result.lower_bound, lower_bound)
    if result.is_optimal and bound >= found:
        return f"optimal{among}"
    if bound <= 0:
        return "the best plan found; nothing is proved"
    return f"within {ceil((found / bound - 1) * 1e4) / 1e2:g} % of a proven lower bound{among}"
