"""Restore whole operators after the search, if their own kernels can be split as the plan says.

During the search, smaller operators (*parts*) replace every operator that has a lowering (a rule for this). But the
kernel of a whole operator is faster. So parts remain only if this kernel cannot be split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tofu.analysis import OperatorAccess
from tofu.errors import InternalError
from tofu.graph import Graph, Operator, Phase
from tofu.lowering.expansion import lower
from tofu.lowering.parts import LowerableOperators, find_lowering
from tofu.plan import AxisChoice, DimensionChoice
from tofu.search import Choices, Problem, find_strategies, make_problem
from tofu.search.choices import REPLICATED, NamedChoices, make_choices, name_choices
from tofu.search.cost import evaluate
from tofu.search.native import find_live_operators


def restore_whole_operators(
    graph: Graph,
    whole_accesses: Sequence[OperatorAccess],
    searched: Choices,
    framework: LowerableOperators,
    undescribed: str = "error",
) -> Choices:
    """Put the model's operators back in place of smaller operators, if their kernels can be split in the same way.

    For the search, smaller operators replaced some operators. `searched` is the result of the search. `graph` is the
    model's graph, and `whole_accesses` has the axes of its operators. Raises InternalError if the model's operators
    transfer more bytes than the smaller operators.
    """
    if searched.problem.graph is graph:
        return searched
    restored = _restore(graph, whole_accesses, searched, framework, undescribed)
    restored_bytes, searched_bytes = evaluate(restored).total_bytes, evaluate(searched).total_bytes
    if restored_bytes > searched_bytes:
        raise InternalError(
            f"Operators with their own kernels move {restored_bytes} bytes, and in parts {searched_bytes}."
        )
    return restored


def prepare_inference(
    graph: Graph, searched: Choices, framework: LowerableOperators, undescribed: str = "error"
) -> Choices:
    """Return the split `searched` for inference, with forward operators only."""
    if searched.problem.graph is graph:
        return searched
    operators = []
    for operator in graph.operators:
        lowering = find_lowering(framework.lowerings, operator, graph.tensors)
        if operator.phase is Phase.FORWARD:
            attributes = operator.attributes if lowering is None else lowering.in_inference(operator.attributes)
            operators.append(replace(operator, attributes=attributes))
    forward = replace(graph, operators=tuple(operators), gradients={}, updated=frozenset(), next_values={})
    return _restore(forward, find_strategies(forward, framework, undescribed), searched, framework, undescribed)


def _restore(
    graph: Graph,
    whole_accesses: Sequence[OperatorAccess],
    searched: Choices,
    framework: LowerableOperators,
    undescribed: str,
) -> Choices:
    named_choices, lowered = name_choices(searched), searched.problem.graph
    # Parts whose outputs nobody reads do not run. A whole operator would run, to update its states.
    live_names = {lowered.operators[number].name for number in find_live_operators(lowered, searched.problem.accesses)}
    whole_names = set()
    for operator, access in zip(graph.operators, whole_accesses, strict=True):
        lowering = find_lowering(framework.lowerings, operator, graph.tensors)
        whole = operator if lowering is None else lowering.as_whole(operator)
        layouts = [named_choices.tensors[graph.tensors[tensor].name] for tensor in operator.inputs]
        if operator.name in live_names and _can_be_split(
            whole, access, named_choices.operators[operator.name], layouts
        ):
            whole_names.add(operator.name)
    final = lower(graph, framework.lowerings, lambda operator: operator.name not in whole_names)
    # In the search, equal time steps share what workers read. They must share the same in this graph.
    equal = searched.problem.equal.for_graph(lowered, final)
    accesses = find_strategies(final, framework, undescribed)
    problem = make_problem(final, accesses, searched.problem.factors, equal, searched.problem.rules)
    return _resolve_names(problem, named_choices)


def _resolve_names(problem: Problem, named_choices: NamedChoices) -> Choices:
    graph = problem.graph
    operators = [
        [
            REPLICATED if axis is None else access.axes.index(axis)
            for axis in named_choices.operators[graph.operators[part].name]
        ]
        for part, access in zip(graph.named_parts, problem.accesses, strict=True)
    ]
    tensors = [[REPLICATED if d is None else d for d in named_choices.tensors[tensor.name]] for tensor in graph.tensors]
    kept, reread = (
        [graph.tensor_index[name] for name in names] for names in (named_choices.kept, named_choices.reread)
    )
    return make_choices(problem, operators, tensors, kept, reread)


def _can_be_split(
    operator: Operator, access: OperatorAccess, axes: AxisChoice, layouts: Sequence[DimensionChoice]
) -> bool:
    if any(axis is not None and axis not in access.axes for axis in axes):
        return False
    return all(_find_layout(access, position, axes) == layouts[position] for position in operator.mutates)


def _find_layout(access: OperatorAccess, position: int, axes: AxisChoice) -> DimensionChoice:
    rows = access.inputs[position].rows
    dimension_by_axis = {access.axes[axis]: dimension for dimension, row in enumerate(rows) for axis, _ in row.terms}
    return tuple(None if axis is None else dimension_by_axis.get(axis) for axis in axes)
