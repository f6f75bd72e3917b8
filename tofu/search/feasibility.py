"""Checks of plans: all workers must have work, and no two workers may draw random numbers for the same element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from tofu.errors import InfeasibleError
from tofu.graph import Operator, TensorKind
from tofu.search.choices import REPLICATED, Choices
from tofu.search.problem import Problem
from tofu.search.rounds import factorize

MOST_NAMES = 3  # in a message


def explain_unsplit_round(choices: Choices) -> str:
    """Explain why a round of the plan splits no operator. Return "" if every round splits an operator."""
    problem = choices.problem
    split = choices.operators[: len(problem.graph.operators)]
    for number in range(len(problem.factors)):
        if len(split) and np.all(split[:, number] == REPLICATED):
            return f"{prod(problem.factors)} workers cannot be fed: {_explain(choices, number)}"
    return ""


def check_random_operators(choices: Choices, draws: Callable[[Operator], bool]) -> None:
    """Raise InfeasibleError if two workers would draw random numbers for the same part of an operator.

    `draws` returns True for operators that draw random numbers.
    """
    problem = choices.problem
    for operator, access, taken in zip(problem.graph.operators, problem.accesses, choices.operators, strict=False):
        if not access.is_random or not draws(operator):
            continue
        alike = prod(factor for factor, choice in zip(problem.factors, taken, strict=True) if choice == REPLICATED)
        if alike > 1:
            workers, shape = prod(problem.factors), problem.graph.tensors[operator.outputs[0]].shape
            raise InfeasibleError(
                f"{operator.full_name} ({operator.op}) draws random numbers for {shape}, which {workers} workers cannot "
                f"split: {alike} at a time would need the same numbers, but each draws its own. Use {_say_workers(workers // alike)}, or "
                "draw them before the step and pass them to the model as an input."
            )


def _explain(choices: Choices, number: int) -> str:
    problem = choices.problem
    fed, factor = prod(problem.factors[:number]), problem.factors[number]
    left = list(_axes_left(choices, number))
    if not left:
        operators = problem.graph.operators
        names = ", ".join(operator.full_name for operator in operators[:MOST_NAMES])
        more = f" and {len(operators) - MOST_NAMES} more" if operators[MOST_NAMES:] else ""
        reason = f": {problem.accesses[0].explain_whole()}" if len(operators) == 1 else ""
        return f"no operator of the model ({names}{more}) has an axis to split{reason}. Use {_say_workers(1)}."
    equal = "equal " if problem.rules.splits_equally and not problem.rules.overlaps else ""
    fitting = [axis for axis in left if axis[0] >= factor and (axis[3] or axis[0] % factor == 0)]
    longest, owner, axis, _ = max(left)
    among = f"over {fed} workers already, no operator" if fed > 1 else "no operator"
    if fitting:
        longest, owner, axis, _ = max(fitting)
        where = f"axis {axis} of {_show(problem, owner)}"
        return (
            f"{among} is split into {factor} {equal}parts, which some could be ({where} is {longest} long), by the hints or the algorithm "
            "given. Leave operators free that can be split."
        )
    if fed > 1:
        remedy = _say_workers(fed)
    elif equal:
        remedy = f"a number of workers that divides {longest}"
    else:
        is_prime = len(factorize(factor)) == 1
        remedy = (
            f"a number of workers without a prime factor above {longest}" if is_prime else f"at most {longest} workers"
        )
    other = f"a batch that {factor} divides" if equal else "a larger batch"
    larger = f", or {other}" if _grows_with_batch(problem) else ""
    return (
        f"{among} has an axis left that divides into {factor} {equal}parts; the longest is {axis} of {_show(problem, owner)}, {longest}. "
        f"Use {remedy}{larger}."
    )


def _show(problem: Problem, operator: str) -> str:
    return problem.graph.operators[problem.graph.operator_index[operator]].full_name


def _say_workers(count: int) -> str:
    return f"{count} workers" if count > 1 else "one device"


def _axes_left(choices: Choices, rounds: int) -> Iterator[tuple[int, str, str, bool]]:
    problem = choices.problem
    for position, (operator, access) in enumerate(zip(problem.graph.operators, problem.accesses, strict=True)):
        uneven = problem.native.uneven_axes(position)
        for axis_number, (axis, extent) in enumerate(zip(access.axes, access.extents, strict=True)):
            taken = [
                f
                for f, a in zip(problem.factors[:rounds], choices.operators[position], strict=False)
                if a == axis_number
            ]
            has_rest = not problem.rules.splits_equally or axis_number in uneven
            yield extent // prod(taken), operator.name, axis, has_rest


def _grows_with_batch(problem: Problem) -> bool:
    tensors = problem.graph.tensors
    return any(
        tensors[tensor].kind is TensorKind.INPUT and read.rows and read.rows[0].terms
        for operator, access in zip(problem.graph.operators, problem.accesses, strict=True)
        for tensor, read in zip(operator.inputs, access.inputs, strict=True)
    )
