"""Restoration of whole operators after the search, if their own kernels can be split as the plan chooses.

The search runs on the graph in which every operator with a lowering is replaced by its parts. The choices of a plan then
decide which operators really run in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tofu.analysis import OperatorAccess
from tofu.errors import InternalError
from tofu.graph import Graph, Operator, Phase
from tofu.lowering.expansion import keep_whole, lower
from tofu.lowering.parts import LowerableOperators, find_lowering
from tofu.plan import AxisChoice, DimensionChoice
from tofu.search import Choices, Problem, find_strategies, pose_problem
from tofu.search.choices import REPLICATED, NamedChoices, make_choices, name_choices
from tofu.search.cost import evaluate
from tofu.search.native import find_live_operators


def restore_whole_operators(
    graph: Graph,
    stock: Sequence[OperatorAccess],
    searched: Choices,
    framework: LowerableOperators,
    undescribed: str = "error",
) -> Choices:
    """Return the choices for the graph that runs, in which only operators that need it are replaced by parts.

    `graph` is the semantic graph, `stock` has the axes of its whole operators, and `searched` the choices for the fully
    lowered graph. Tensors keep their numbers. Raises InternalError if the result transfers more bytes than `searched`.
    """
    if searched.problem.graph is graph:
        return searched
    restored = _restore(graph, stock, searched, framework, undescribed)
    found, expected = evaluate(restored).total_bytes, evaluate(searched).total_bytes
    if found > expected:
        raise InternalError(f"Operators with their own kernels move {found} bytes, and in parts {expected}.")
    return restored


def prepare_inference(
    graph: Graph, searched: Choices, framework: LowerableOperators, undescribed: str = "error"
) -> Choices:
    """Return the same choices for the forward operators only, with their attributes in inference."""
    if searched.problem.graph is graph:
        return searched
    operators = []
    for operator in graph.operators:
        lowering = find_lowering(framework.lowerings, operator, graph.tensors)
        if operator.phase is Phase.FORWARD:
            attributes = operator.attributes if lowering is None else lowering.in_inference(operator.attributes)
            operators.append(replace(operator, attributes=attributes))
    forward = replace(graph, operators=tuple(operators), gradients={}, updated=frozenset(), next_values={})
    stock = find_strategies(forward, framework, undescribed)
    return _restore(forward, stock, searched, framework, undescribed)


def _restore(
    graph: Graph,
    stock: Sequence[OperatorAccess],
    searched: Choices,
    framework: LowerableOperators,
    undescribed: str,
) -> Choices:
    named, lowered = name_choices(searched), searched.problem.graph
    # An operator that nobody reads stays in parts, which do not run. Its own kernel would run, to update states.
    live = {lowered.operators[o].name for o in find_live_operators(lowered, searched.problem.accesses)}
    whole = {
        operator.name
        for operator, access in zip(graph.operators, stock, strict=True)
        if operator.name in live
        and _can_follow(
            keep_whole(framework.lowerings, operator, graph.tensors),
            access,
            named.operators[operator.name],
            [named.tensors[graph.tensors[t].name] for t in operator.inputs],
        )
    }
    final = lower(graph, framework.lowerings, lambda operator: operator.name not in whole)
    # The search counted fetches that equal time steps of its graph share, so the same time steps must share them here.
    equal = searched.problem.equal.carry_over(lowered, final)
    accesses = find_strategies(final, framework, undescribed)
    problem = pose_problem(final, accesses, searched.problem.factors, equal, searched.problem.moves)
    return _resolve_names(problem, named)


def _resolve_names(problem: Problem, named: NamedChoices) -> Choices:
    graph = problem.graph
    operators = [
        [
            REPLICATED if axis is None else access.axes.index(axis)
            for axis in named.operators[graph.operators[part].name]
        ]
        for part, access in zip(graph.named_parts, problem.accesses, strict=True)
    ]
    tensors = [[REPLICATED if d is None else d for d in named.tensors[tensor.name]] for tensor in graph.tensors]
    kept, reread = ([graph.tensor_index[name] for name in names] for names in (named.kept, named.reread))
    return make_choices(problem, operators, tensors, kept, reread)


def _can_follow(
    operator: Operator, access: OperatorAccess, axes: AxisChoice, layouts: Sequence[DimensionChoice]
) -> bool:
    """Return True if the kernel can be split along these axes, and each worker holds the elements that its copy updates."""
    if any(axis is not None and axis not in access.axes for axis in axes):
        return False
    return all(_written_layout(access, slot, axes) == layouts[slot] for slot in operator.mutates)


def _written_layout(access: OperatorAccess, slot: int, axes: AxisChoice) -> DimensionChoice:
    """Return the layout of input `slot` in which each worker holds exactly the region that its copy touches."""
    rows = access.inputs[slot].rows
    dimension_of = {access.axes[axis]: d for d, row in enumerate(rows) for axis, _ in row.terms}
    return tuple(None if axis is None else dimension_of.get(axis) for axis in axes)
