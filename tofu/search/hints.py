"""Conversion of names to numbers, in hints (splits that the user fixes) and in plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Literal

import numpy as np

from tofu import _core
from tofu.errors import PlanError, find_similar_names, raise_together
from tofu.graph import Graph, Operator, Tensor, TensorKind, find_operator, find_similar_operators, list_scopes
from tofu.plan import Plan
from tofu.search.choices import FREE, REPLICATED, Choices, FixedChoices, make_choices
from tofu.search.problem import Problem
from tofu.search.solve import complete

Kind = Literal["operator", "tensor"]
GIVEN = (TensorKind.INPUT, TensorKind.PARAMETER)
# Values that users write on the command line, and may write in Python by mistake. Each is followed by the right value.
SPECIAL = {"...": "...", "-": "None", "None": "None"}


def resolve_hints(problem: Problem, hints: Mapping[str, Any]) -> FixedChoices:
    """Convert the user's hints to splits that a search may not change.

    A hint is a dimension for a tensor, and the name of an axis for an operator. None replicates, and Ellipsis lets the
    search choose. A list has a hint for each round. Raises PlanError if hints are impossible.
    """
    fixed = FixedChoices({}, {})
    problems = []
    for name, hint in hints.items():
        rounds = list(hint) if isinstance(hint, (tuple, list)) else [hint] * len(problem.factors)
        problem_text = _resolve_hint(problem, name, rounds, fixed)
        if problem_text:
            problems.append(problem_text)
    raise_together(PlanError, "These hints cannot be honoured:", problems)
    return fixed


def _resolve_hint(problem: Problem, name: str, rounds: Sequence[Any], fixed: FixedChoices) -> str:
    graph = problem.graph
    if len(rounds) != len(problem.factors):
        return f"{name}: {len(rounds)} choices given, but the factors {problem.factors} take one for each round"
    special = [choice for choice in rounds if isinstance(choice, str) and choice in SPECIAL]
    if special:
        return f"{name}: {special[0]!r} is text; write {SPECIAL[special[0]]}, without quotes"
    operator = None if name in graph.tensor_index else find_operator(graph, name, problem.count_points)
    if operator is None and name not in graph.tensor_index:
        near = _find_similar(problem, name)
        some = ", ".join([tensor.name for tensor in graph.tensors if tensor.kind in GIVEN][:3])
        return f"{name}: the graph has no such operator or tensor; " + (
            f"did you mean {', '.join(near)}?" if near else f"print(plan) lists the names, such as {some}"
        )
    name = name if operator is None else operator.name
    has_axes = any(isinstance(choice, str) for choice in rounds)
    is_operator = name in graph.operator_index and (has_axes or name not in graph.tensor_index)
    position = (graph.operator_index if is_operator else graph.tensor_index)[name]
    try:
        if is_operator:
            if position in fixed.operators:
                return f"{name}: another hint fixes {_show_name(graph, 'operator', position)}; remove either hint"
            fixed.operators[position] = [_axis_number(problem, position, choice) for choice in rounds]
            return _find_infeasible(problem, "operator", position, fixed.operators[position])
        fixed.tensors[position] = [_dimension_number(problem, position, choice) for choice in rounds]
        return _find_infeasible(problem, "tensor", position, fixed.tensors[position])
    except PlanError as error:
        return f"{_show_name(graph, 'operator' if is_operator else 'tensor', position)}: {error}"


def _find_similar(problem: Problem, name: str) -> list[str]:
    graph = problem.graph
    near = find_similar_names(name, [*graph.tensor_index, *list_scopes(graph), *graph.operator_index])
    if near and near[0] in graph.operator_index:
        return find_similar_operators(graph, name, problem.count_points)
    return near


def _show_name(graph: Graph, kind: Kind, position: int) -> str:
    return graph.operators[position].full_name if kind == "operator" else graph.tensors[position].name


def _axis_number(problem: Problem, operator: int, axis: Any) -> int:
    if axis is None:
        return REPLICATED
    if axis is Ellipsis:
        return FREE
    access = problem.accesses[operator]
    if axis in access.axes:
        return access.axes.index(axis)
    reason = dict(access.rejected).get(axis)
    if not access.axes:
        raise PlanError(
            f"it cannot be split along {axis!r}, nor along any other axis: {access.explain_whole()}. Leave the hint out"
        )
    offered = ", ".join(access.axes)
    raise PlanError(f"{axis!r} is not an axis it can be split along ({offered})" + (f": {reason}" if reason else ""))


def _dimension_number(problem: Problem, tensor: int, dimension: Any) -> int:
    if dimension is None:
        return REPLICATED
    if dimension is Ellipsis:
        return FREE
    shape = problem.graph.tensors[tensor].shape
    if isinstance(dimension, bool) or not isinstance(dimension, (int, np.integer)) or not 0 <= dimension < len(shape):
        kind = "; dimensions are integers, not text" if isinstance(dimension, str) else ""
        raise PlanError(f"{dimension!r} is not a dimension of its shape {shape} (0 to {len(shape) - 1}){kind}")
    return int(dimension)


def _find_infeasible(problem: Problem, kind: Kind, position: int, rounds: Sequence[int]) -> str:
    may_replicate = kind == "tensor" or not problem.accesses[position].is_random
    for number, choice in enumerate(rounds):
        if choice == FREE:
            return ""
        feasible = _core.feasible_choices(problem.native, list(problem.factors), kind, position, list(rounds[:number]))
        if choice not in feasible and not (choice == REPLICATED and may_replicate):
            reason = _explain_infeasible(problem, kind, position, rounds, number, feasible)
            return f"{_show_name(problem.graph, kind, position)}: {reason}"
    return ""


def _explain_infeasible(
    problem: Problem, kind: Kind, position: int, rounds: Sequence[int], number: int, feasible: Sequence[int]
) -> str:
    factor, choice = problem.factors[number], rounds[number]
    if kind == "tensor":
        extents, names = problem.graph.tensors[position].shape, None
    else:
        extents, names = problem.accesses[position].extents, problem.accesses[position].axes

    def title(chosen: int) -> str:
        return "replicated" if chosen == REPLICATED else f"{names[chosen]!r}" if names else f"dimension {chosen}"

    offered = ", ".join(title(each) for each in feasible)
    if choice == REPLICATED:
        return f"in round {number + 1} it cannot be replicated, because each worker would draw other random numbers (possible: {offered})"
    parts = int(np.prod([problem.factors[s] for s in range(number) if rounds[s] == choice], initial=1))
    native = problem.native
    uneven = native.uneven_dimensions(position) if kind == "tensor" else native.uneven_axes(position)
    if names and (outer := problem.accesses[position].outer_axes.get(names[choice])):
        return (
            f"in round {number + 1}, {title(choice)} can be split only if the rounds before split {' and '.join(map(repr, outer))} into "
            f"single positions (possible: {offered})"
        )
    is_equal = problem.rules.splits_equally and choice not in uneven
    more = f"{factor} more of each" + (", all equal" if is_equal else "")
    return (
        f"{title(choice)} has extent {extents[choice]}, already in {parts} part{'s' if parts > 1 else ''}; round {number + 1} needs "
        f"{more} (possible: {offered})"
    )


def resolve_plan(problem: Problem, plan: Plan) -> Choices:
    """Convert a plan (with names) to choices (with numbers). Raise PlanError if it does not fit `problem`.

    The plan's fingerprint (hash of the model) is not checked.
    """
    if tuple(plan.factors) != problem.factors:
        raise PlanError(
            f"The plan is for {plan.workers} workers (factors {plan.factors}), "
            f"not for {prod(problem.factors)} (factors {problem.factors})."
        )
    graph = problem.graph
    left_out = [t for t, tensor in enumerate(graph.tensors) if tensor.is_inner and tensor.name not in plan.tensors]
    named_tensors = [t for t in range(len(graph.tensors)) if t not in set(left_out)]
    named_operators = [o for o, operator in enumerate(graph.operators) if not operator.is_inner]
    missing = [graph.tensors[t].name for t in named_tensors if graph.tensors[t].name not in plan.tensors]
    missing += [graph.operators[o].name for o in named_operators if graph.operators[o].name not in plan.operators]
    _check_names(graph, plan, list(dict.fromkeys(missing)))
    kept, reread = (tuple(graph.tensor_index[name] for name in names) for names in (plan.kept, plan.reread))
    problems: list[str] = []
    operators = _resolve_all(problem, "operator", named_operators, plan.operators, problems)
    tensors = _resolve_all(problem, "tensor", named_tensors, plan.tensors, problems)
    raise_together(PlanError, "The plan cannot be applied to this graph:", problems[:12])
    if left_out:
        return replace(complete(problem, FixedChoices(operators, tensors), exactly=True), kept=kept, reread=reread)
    rows, layouts = [operators[o] for o in graph.named_parts], [tensors[t] for t in range(len(graph.tensors))]
    return make_choices(problem, rows, layouts, kept, reread)


def _check_names(graph: Graph, plan: Plan, missing: Sequence[str]) -> None:
    problems = [f"{name} is not in the plan" for name in missing[:8]]
    extra = [f"{name} is not in the graph" for name in plan.tensors if name not in graph.tensor_index]
    extra += [f"{name} is kept, but not in the graph" for name in plan.kept if name not in graph.tensor_index]
    extra += [f"{name} is read again, but not in the graph" for name in plan.reread if name not in graph.tensor_index]
    extra += [f"{name} is not in the graph" for name in plan.operators if name not in graph.operator_index]
    raise_together(PlanError, "The plan is of another graph:", [*problems, *extra[:8]])
    written = [name for name in plan.kept if graph.tensor_index[name] in graph.written_in_place]
    raise_together(PlanError, "Fetched regions of tensors that operators update in place cannot be kept:", written)
    both = sorted({*plan.kept} & {*plan.reread})
    raise_together(PlanError, "Fetched regions of a tensor are kept or read again, not both:", both)


def _resolve_all(
    problem: Problem,
    kind: Kind,
    positions: Sequence[int],
    choices: Mapping[str, Sequence[int | str | None]],
    problems: list[str],
) -> dict[int, list[int]]:
    named: Sequence[Operator | Tensor] = problem.graph.operators if kind == "operator" else problem.graph.tensors
    number = _axis_number if kind == "operator" else _dimension_number
    resolved: dict[int, list[int]] = {}
    for position in positions:
        name = named[position].name
        try:
            rounds = [number(problem, position, choice) for choice in choices[name]]
        except PlanError as error:
            problems.append(f"{_show_name(problem.graph, kind, position)}: {error}")
            continue
        resolved[position] = rounds
        problem_text = _find_infeasible(problem, kind, position, rounds)
        if problem_text:
            problems.append(problem_text)
    return resolved
