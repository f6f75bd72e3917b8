"""How plans can be found by name: the searches, the baselines, and what each proves of the plan that it finds."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any

from tofu import _core
from tofu.errors import PlanError
from tofu.reading import show
from tofu.search.choices import factorize, list_orders

SEARCHES = ("recursive", "exact")
# Of these the first three split everything along one axis or dimension, over all workers at once (section 7.3 of the paper).
ONE_STEP_BASELINES = ("allrow-greedy", "spartan", "equalchop")
BASELINES = (*ONE_STEP_BASELINES, "icml18", "data-parallel", "megatron")
ALGORITHMS = (*SEARCHES, *BASELINES)
DEFAULT_ALGORITHM = "exact"
DEFAULT_SEARCH_SECONDS = 10.0
LONGEST_SEARCH_SECONDS = 10**7  # four months


def check_algorithm(algorithm: Any, seconds: Any) -> None:
    """Raise PlanError for an algorithm that there is not, or a time that is none."""
    if algorithm not in ALGORITHMS:
        raise PlanError(
            f"algorithm is {show(algorithm)}; the searches are {' and '.join(map(repr, SEARCHES))}, "
            f"the baselines {', '.join(map(repr, BASELINES))}."
        )
    is_number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= LONGEST_SEARCH_SECONDS:
        raise PlanError(
            f"search_seconds is {show(seconds)}; it is the effort of the exact search, in seconds of work: a number from 0 to "
            f"{LONGEST_SEARCH_SECONDS:,}."
        )


def choose_factors(algorithm: str, workers: int) -> tuple[int, ...]:
    """The steps in which an algorithm splits: the prime factors, or all workers at once."""
    return (workers,) if algorithm in ONE_STEP_BASELINES else factorize(workers)


def list_factor_orders(algorithm: str, workers: int) -> tuple[tuple[int, ...], ...]:
    """The orders of the steps that an algorithm looks at: for a search all of them, as far as `list_orders` goes, since 2 x 3 may move
    less than 3 x 2; the paper's own comes first.
    """
    factors = choose_factors(algorithm, workers)
    return list_orders(factors) if algorithm in SEARCHES else (factors,)


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
    hundredths = -((bound - found) * 10_000 // bound)
    return f"within {Decimal(hundredths) / 100} % of a proven lower bound{among}"
