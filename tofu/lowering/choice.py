"""After the search: operators whose choice their own kernel can follow are whole again.

The search runs on the graph in which everything that can be lowered is. A plan names the operators of the model; which of them run
in parts follows from its choices alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tofu.analysis import OperatorAccess
from tofu.errors import InternalError
from tofu.graph import Graph, Operator, Phase
from tofu.lowering.expansion import keep_whole, lower
from tofu.lowering.parts import LowerableOperators, find_lowering
from tofu.plan import AxisSteps, Steps
from tofu.search import Choices, Problem, find_strategies, pose_problem
from tofu.search.choices import REPLICATED, make_choices
from tofu.search.cost import evaluate
from tofu.search.native import find_live_operators
from tofu.search.steps import NamedChoices, name_choices


@dataclass(frozen=True)
class Settled:
    """The problem that is emitted, and the choices for it, by number and by name. Tensors of the model have their positions in the
    semantic graph.
    """

    problem: Problem
    choices: Choices
    named: NamedChoices


def settle(
    graph: Graph,
    stock: Sequence[OperatorAccess],
    searched: Problem,
    choices: Choices,
    framework: LowerableOperators,
    undescribed: str = "error",
) -> Settled:
    """The graph of the model with those operators in parts that need it, and the same choices.

    `stock`: the strategies of `graph`, whose operators are whole; `searched` is the problem of the fully lowered graph. Raises
    InternalError where this would cost more than what was searched.
    """
    if searched.graph is graph:
        return Settled(searched, choices, name_choices(searched, choices))
    settled = _settle(graph, stock, searched, choices, framework, undescribed)
    found, expected = (evaluate(p, c).total_bytes for p, c in ((settled.problem, settled.choices), (searched, choices)))
    if found > expected:
        raise InternalError(f"Operators with their own kernels move {found} bytes, and in parts {expected}.")
    return settled


def prepare_inference(
    graph: Graph, searched: Problem, choices: Choices, framework: LowerableOperators, undescribed: str = "error"
) -> Settled:
    """The forward operators with the same choices, as they are in inference."""
    if searched.graph is graph:
        return Settled(searched, choices, name_choices(searched, choices))
    operators = []
    for operator in graph.operators:
        lowering = find_lowering(framework.lowerings, operator, graph.tensors)
        if operator.phase is Phase.FORWARD:
            attributes = operator.attributes if lowering is None else lowering.in_inference(operator.attributes)
            operators.append(replace(operator, attributes=attributes))
    forward = replace(graph, operators=tuple(operators), gradients={}, updated=frozenset(), next_values={})
    stock = find_strategies(forward, framework, undescribed)
    return _settle(forward, stock, searched, choices, framework, undescribed)


def _settle(
    graph: Graph,
    stock: Sequence[OperatorAccess],
    searched: Problem,
    choices: Choices,
    framework: LowerableOperators,
    undescribed: str,
) -> Settled:
    named = name_choices(searched, choices)
    # An operator that nobody reads stays in parts, which are left out: its own kernel would run for the states that it may change.
    live = {searched.graph.operators[o].name for o in find_live_operators(searched.graph, searched.accesses)}
    whole = {
        operator.name
        for operator, access in zip(graph.operators, stock, strict=True)
        if operator.name in live
        and _follows(
            keep_whole(framework.lowerings, operator, graph.tensors),
            access,
            named.operators[operator.name],
            [named.tensors[graph.tensors[t].name] for t in operator.inputs],
        )
    }
    final = lower(graph, framework.lowerings, lambda operator: operator.name not in whole)
    # Who shares a fetch was priced in the search: operators in parts and whole ones need not look equally repeated.
    equal = searched.equal.carry_over(searched.graph, final)
    accesses = find_strategies(final, framework, undescribed)
    problem = pose_problem(final, accesses, searched.factors, equal, searched.moves)
    return Settled(
        problem, _number(problem, named), replace(named, tensors={t.name: named.tensors[t.name] for t in final.tensors})
    )


def _number(problem: Problem, named: NamedChoices) -> Choices:
    """Choices for another graph of the same model than the one that they were named in: all inner parts of an operator take its choice."""
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
    return make_choices(graph, problem.factors, operators, tensors, kept, reread)


def _follows(operator: Operator, access: OperatorAccess, axes: AxisSteps, layouts: Sequence[Steps]) -> bool:
    """Whether the stock kernel can be split so, with each worker holding what its copy writes."""
    if any(axis is not None and axis not in access.axes for axis in axes):
        return False
    return all(_written_layout(access, slot, axes) == layouts[slot] for slot in operator.mutates)


def _written_layout(access: OperatorAccess, slot: int, axes: AxisSteps) -> Steps:
    """The layout in which each worker holds exactly the part of input `slot` that its copy touches."""
    rows = access.inputs[slot].rows
    dimension_of = {access.axes[axis]: d for d, row in enumerate(rows) for axis, _ in row.terms}
    return tuple(None if axis is None else dimension_of.get(axis) for axis in axes)
