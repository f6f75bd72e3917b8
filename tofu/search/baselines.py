"""The partition algorithms that the paper compares itself with (section 7.3), over the same graph and the same cost.

allrow-greedy   every tensor is split along its first dimension, and each operator as is best then
spartan         the largest tensor first, then the operators around it, each as is cheapest so far (csrc/core/search/greedy.h)
equalchop       the search of section 5.2 in a single step: everything is split along one dimension, over all workers at once
icml18          the best plan of all, of those that never add up partial results

The other two are made by hand, for a kind of model each (`tofu.search.hand_plans`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tofu import _core
from tofu.analysis.access import Combine
from tofu.search.algorithms import describe_optimality
from tofu.search.choices import REPLICATED, Choices
from tofu.search.hand_plans import plan_data_parallel, plan_megatron
from tofu.search.problem import Fixed, Problem, Progress
from tofu.search.strategies import restrict_axes
from tofu.search.validation import check_fed

Found = tuple[Choices, str]
Hints = Mapping[str, Any]


def find_baseline(
    problem: Problem, algorithm: str, hints: Hints | None = None, progress: Progress | None = None, seconds: float = 0.0
) -> Found:
    """The plan of a baseline, and what is known of it. Hints come before what the baseline would do.

    `problem` has the steps of `choose_factors`. Raises PlanError for hints that cannot be honoured, and InfeasibleError where the
    baseline does not apply to the graph.
    """
    choices, optimality = _PLANNERS[algorithm](problem, hints or {}, progress, seconds)
    check_fed(problem, choices)
    return choices, optimality


def _plan_allrow(problem: Problem, hints: Hints, progress: Progress | None, seconds: float) -> Found:
    operators, tensors = problem.fix_hints(hints)
    first = {t: _first_dimension(problem, t) for t in range(len(problem.graph.tensors)) if _is_free(problem, t)}
    choices, _ = problem.run(_search_recursive, (operators, first | tensors))
    return choices, "every tensor along its first dimension; each operator optimal, given that"


def _first_dimension(problem: Problem, tensor: int) -> list[int]:
    (workers,) = problem.factors
    shape = problem.graph.tensors[tensor].shape
    return [next((d for d, extent in enumerate(shape) if extent >= workers), REPLICATED)]


def _is_free(problem: Problem, tensor: int) -> bool:
    """Whether a tensor is the model's, and need not lie where an operator writes it in place."""
    return not problem.graph.tensors[tensor].is_inner and tensor not in problem.graph.written_in_place


def _plan_spartan(problem: Problem, hints: Hints, progress: Progress | None, seconds: float) -> Found:
    choices, _ = problem.run(_search_greedy, problem.fix_hints(hints))
    return choices, "greedy, the largest tensor first; nothing is proved"


def _plan_equalchop(problem: Problem, hints: Hints, progress: Progress | None, seconds: float) -> Found:
    choices, _ = problem.run(_search_recursive, problem.fix_hints(hints))
    return choices, "optimal among plans that split everything once"


def _plan_icml18(problem: Problem, hints: Hints, progress: Progress | None, seconds: float) -> Found:
    """The exact search over a problem whose operators lack the axes along which something is added up."""
    accesses = [
        restrict_axes(access, [axis for n, axis in enumerate(access.axes) if n not in dropped])
        for access, dropped in zip(problem.accesses, _find_reducing(problem), strict=True)
    ]
    restricted = Problem(problem.graph, accesses, problem.factors)
    found, result = restricted.search(hints, progress, "exact", seconds)
    optimality = describe_optimality(result, bool(problem.equal.operators))
    operators = found.operators.copy()
    for position, (few, all_axes) in enumerate(zip(restricted.accesses, problem.accesses, strict=True)):
        numbers = np.array([all_axes.axes.index(axis) for axis in few.axes] + [REPLICATED], np.int32)
        operators[position] = numbers[found.operators[position]]  # -1, replicated, takes the last
    return Choices(operators, found.tensors), f"{optimality}, without output reduction"


def _find_reducing(problem: Problem) -> list[set[int]]:
    """By operator: the axes along which it, or one that shares its choice, adds up a result of the model that somebody reads."""
    graph = problem.graph
    read = {*graph.outputs, *graph.gradients.values(), *(t for operator in graph.operators for t in operator.inputs)}
    kept = {t for t in read if not graph.tensors[t].is_inner}
    roots = [int(problem.native.choice_root(position)) for position in range(len(graph.operators))]
    dropped: dict[int, set[int]] = {root: set() for root in roots}
    for root, operator, access in zip(roots, graph.operators, problem.accesses, strict=True):
        for tensor, written in zip(operator.outputs, access.outputs, strict=True):
            if tensor in kept:
                dropped[root] |= {
                    a for a in range(len(access.axes)) if written.combine[a] in (Combine.REDUCE, Combine.OVERLAP_ADD)
                }
    return [dropped[root] for root in roots]


def _search_recursive(graph: Any, factors: list[int], fixed: tuple[Fixed, Fixed]) -> Any:
    return _core.search_recursive(graph, factors, *fixed)


def _search_greedy(graph: Any, factors: list[int], fixed: tuple[Fixed, Fixed]) -> Any:
    return _core.search_greedy(graph, factors, *fixed)


def _by_hand(plan: Callable[[Problem, Hints], Choices]) -> Callable[[Problem, Hints, Progress | None, float], Found]:
    return lambda problem, hints, progress, seconds: (plan(problem, hints), "made by hand; nothing is proved")


_PLANNERS: dict[str, Callable[[Problem, Hints, Progress | None, float], Found]] = {
    "allrow-greedy": _plan_allrow,
    "spartan": _plan_spartan,
    "equalchop": _plan_equalchop,
    "icml18": _plan_icml18,
    "data-parallel": _by_hand(plan_data_parallel),
    "megatron": _by_hand(plan_megatron),
}
