"""Baseline algorithms that the paper compares with (section 7.3), for the same graph and with the same cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tofu import _core
from tofu.analysis.access import Combine
from tofu.search.choices import REPLICATED, Choices, FixedChoices
from tofu.search.hints import resolve_hints
from tofu.search.problem import Problem, make_problem
from tofu.search.shared_axes import restrict_axes
from tofu.search.solve import Effort, Solution, solve_exactly, solve_greedily, solve_recursively
from tofu.search.topology import Arrangement

Hints = Mapping[str, Any]


def plan_allrow(problem: Problem, hints: Hints, effort: Effort) -> Solution:
    """Split each tensor along the first possible dimension, and operators in the cheapest way. Hints override this."""
    given = resolve_hints(problem, hints)
    first = {t: _first_dimension(problem, t) for t in range(len(problem.graph.tensors)) if _is_free(problem, t)}
    return solve_recursively(_for_bytes(problem), FixedChoices(given.operators, first | given.tensors), effort)


def _first_dimension(problem: Problem, tensor: int) -> list[int]:
    feasible = _core.feasible_choices(problem.native, list(problem.factors), "tensor", tensor, [])
    return [next((d for d in feasible if d != REPLICATED), REPLICATED)]


def _is_free(problem: Problem, tensor: int) -> bool:
    return not problem.graph.tensors[tensor].is_inner and tensor not in problem.graph.written_in_place


def plan_spartan(problem: Problem, hints: Hints, effort: Effort) -> Solution:
    """Split the largest tensor in the cheapest way, then the operators around it, and so on. Hints override this."""
    return solve_greedily(problem, resolve_hints(problem, hints))


def plan_equalchop(problem: Problem, hints: Hints, effort: Effort) -> Solution:
    """Find the best plan that splits each tensor along at most one dimension."""
    return solve_recursively(_for_bytes(problem), resolve_hints(problem, hints), effort)


def plan_icml18(problem: Problem, hints: Hints, effort: Effort) -> Solution:
    """Find the best plan in which no operator computes partial results."""
    accesses = [
        restrict_axes(access, [axis for n, axis in enumerate(access.axes) if n not in dropped])
        for access, dropped in zip(problem.accesses, _find_reducing_axes(problem), strict=True)
    ]
    restricted = make_problem(problem.graph, accesses, problem.factors, rules=problem.rules)
    found = solve_exactly(restricted, resolve_hints(restricted, hints), effort)
    operators = found.choices.operators.copy()
    for position, (few, all_axes) in enumerate(zip(restricted.accesses, problem.accesses, strict=True)):
        numbers = np.array([all_axes.axes.index(axis) for axis in few.axes] + [REPLICATED], np.int32)
        operators[position] = numbers[found.choices.operators[position]]  # -1 (replicated) selects the last number
    return replace(found, choices=Choices(problem, operators, found.choices.tensors))


def _for_bytes(problem: Problem) -> Problem:
    return problem.arrange(Arrangement(problem.factors))


def _find_reducing_axes(problem: Problem) -> list[set[int]]:
    graph = problem.graph
    read = {*graph.results, *(t for operator in graph.operators for t in operator.inputs)}
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
