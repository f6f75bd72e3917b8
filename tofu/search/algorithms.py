"""The searches, and what each proves of the plan that it finds."""

from __future__ import annotations

from math import ceil, inf
from typing import Any

from tofu import _core
from tofu.errors import PlanError

ALGORITHMS = ("recursive", "exact")
DEFAULT_ALGORITHM = "recursive"
DEFAULT_SEARCH_SECONDS = 60.0


def check_algorithm(algorithm: str, seconds: float) -> None:
    """Raise PlanError for a search that there is not, or a time that is none."""
    if algorithm not in ALGORITHMS:
        raise PlanError(f"algorithm is {algorithm!r}; the searches are {' and '.join(map(repr, ALGORITHMS))}.")
    if not 0 <= seconds < inf:
        raise PlanError(f"search_seconds is {seconds}; it is the time that the exact search may take, in seconds.")


def describe_optimality(result: Any, has_equal_steps: bool = False) -> str:
    """How good a native result is known to be.

    The percentage is rounded up: the plan is no further than that from the best one. Where time steps are coalesced
    (`has_equal_steps`), the proof is about the plans that treat equal steps alike.
    """
    if not isinstance(result, _core.ExactResult):
        return "each step optimal, given the steps before"
    among = " among plans that treat equal time steps alike" if has_equal_steps else ""
    if result.is_optimal:
        return f"optimal{among}"
    if result.lower_bound <= 0:
        return "the best plan found; nothing is proved"
    excess = sum(result.plan.step_bytes) / result.lower_bound - 1
    return f"within {ceil(excess * 1e4) / 1e2:g} % of a proven lower bound{among}"
