"""Read a model (an MXNet symbol) for given shapes, and plan it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from math import inf
from typing import Any

from tofu.engine import Source
from tofu.errors import InfeasibleError, PlanError, TofuError
from tofu.graph import Graph
from tofu.mxnet.engine import MXNET
from tofu.mxnet.frontend.blocks import BLOCKED, has_blocks, name_blocks
from tofu.mxnet.frontend.inference import check_names
from tofu.mxnet.frontend.read_symbol import AS_WRITTEN, SymbolForm, read_graph, read_training
from tofu.mxnet.frontend.refusals import refuse_unpartitionable
from tofu.mxnet.frontend.unrolled import has_recurrences
from tofu.mxnet.lowerings import complete_reads, read_through_slices, unmerge_heads
from tofu.pipeline import Observer, Partition, Task, analyse_step, make_partition, observe_by_environment
from tofu.plan import Plan
from tofu.planning.settings import Settings


def read_task(
    symbol: Any,
    shapes: Mapping[str, tuple[int, ...]],
    settings: Settings,
    *,
    dtypes: Mapping[str, Any] | None = None,
    differentiated: Collection[str] = (),
    updated: Collection[str] = (),
    observe: Observer | None = None,
    states: int = 0,
) -> Task:
    """Read a model, and find the ways to split each operator. Raise TofuError if this is impossible.

    Arguments in `differentiated` get gradients. Arguments in `updated` are updated by an optimizer that keeps `states`
    tensors for each argument.
    """
    observe = observe or observe_by_environment()
    differentiated = differentiated if settings.for_training else ()

    def read(form: SymbolForm) -> Source:
        source = read_graph(symbol, shapes, dtypes, differentiated, updated, form)
        observe("read", source.graph)
        completed = read_through_slices(complete_reads(source.graph))
        return replace(source, graph=observe("completed", unmerge_heads(completed)))

    def analyse(source: Source) -> Task:
        return replace(analyse_step(source, MXNET, settings, observe), states=states)

    first_form, *other_forms = _list_forms(symbol, settings)
    first_source = read(first_form)
    plan = settings.plan or settings.saved
    if plan is not None:
        planned_operators = plan.operators.keys()
        for source in chain([first_source], map(read, other_forms)):
            if planned_operators <= source.graph.operator_index.keys():
                return analyse(source)
        return analyse(first_source)
    other_sources = [(form, read(form)) for form in other_forms]
    first_operators = _list_operators(first_source)
    other_sources = [(form, source) for form, source in other_sources if _list_operators(source) != first_operators]
    if not other_sources:
        return analyse(first_source)
    return _choose_form(analyse(first_source), other_sources, read, analyse)


def _list_forms(symbol: Any, settings: Settings) -> list[SymbolForm]:
    unroll = getattr(settings, "unroll", "never") if has_recurrences(symbol) else "never"
    unroll_choices = {"never": (False,), "always": (True,), "cheaper": (False, True)}[unroll]
    plan, hints = settings.plan or settings.saved, settings.hints or {}

    def may_divide(name: str) -> bool:
        return name not in hints if plan is None else name_blocks(name) in plan.operators

    forms = [SymbolForm(is_unrolled) for is_unrolled in unroll_choices]
    if has_blocks(symbol) and settings.workers > 1:
        forms += [replace(form, block_count=settings.workers, may_divide=may_divide) for form in forms]
    return forms


def _list_operators(source: Source) -> list[tuple[str, str]]:
    return [(operator.name, operator.op) for operator in source.graph.operators]


def _choose_form(
    first_task: Task,
    other_sources: Iterable[tuple[SymbolForm, Source]],
    read: Callable[[SymbolForm], Source],
    analyse: Callable[[Source], Task],
) -> Task:
    best_task, best_form, best_plan = first_task, AS_WRITTEN, _plan_form(first_task)
    if isinstance(best_plan, Plan) and best_plan.communication_bytes == 0:
        return first_task
    for form, source in other_sources:
        task = analyse(source)
        plan = _plan_form(task)
        if _find_cost(plan) < _find_cost(best_plan):
            best_task, best_form, best_plan = task, form, plan
    if isinstance(best_plan, TofuError):
        raise best_plan
    if best_form.block_count == 1:
        return best_task
    undivided = _find_undivided(first_task.source.graph, best_task.source.graph, best_plan)
    if not undivided:
        return best_task
    form = replace(best_form, may_divide=lambda name: best_form.may_divide(name) and name not in undivided)
    task = analyse(read(form))
    return best_task if _find_cost(best_plan) < _find_cost(_plan_form(task)) else task


def _plan_form(task: Task) -> Plan | TofuError:
    try:
        return plan_task(task).plan
    except (InfeasibleError, PlanError) as error:
        return error


def _find_cost(plan: Plan | TofuError) -> float:
    if not isinstance(plan, Plan):
        return inf
    seconds = plan.communication_seconds
    return plan.communication_bytes if seconds is None else seconds


def _find_undivided(graph: Graph, graph_in_blocks: Graph, plan: Plan) -> set[str]:
    undivided = set()
    for operator in graph.operators:
        name = name_blocks(operator.name)
        is_in_blocks = operator.op in BLOCKED and name in graph_in_blocks.operator_index
        if not is_in_blocks or name in graph.operator_index:
            continue
        divider = graph_in_blocks.operators[graph_in_blocks.operator_index[name]]
        operand, divided = graph.tensors[operator.inputs[0]], graph_in_blocks.tensors[divider.outputs[0]]
        extents = zip(divided.shape, operand.shape, strict=False)
        block_dimension = next((d for d, (new, old) in enumerate(extents) if new != old), None)
        if block_dimension is not None and block_dimension not in plan.tensors[divided.name]:
            undivided.add(operator.name)
    return undivided


def read_trained(
    symbol: Any,
    shapes: Mapping[str, tuple[int, ...]],
    settings: Settings,
    observe: Observer | None = None,
    states: int = 0,
) -> Task:
    """Read a model for training, and find the ways to split each operator.

    Every argument except inputs and labels is trained.
    """
    refuse_unpartitionable(symbol)
    check_names(symbol, shapes)
    inputs, trained = read_training(symbol, shapes)
    return read_task(symbol, inputs, settings, differentiated=trained, updated=trained, observe=observe, states=states)


def plan_in_best_form(symbol: Any, shapes: Mapping[str, tuple[int, ...]]) -> Callable[[Task], Partition]:
    """Return a function that plans a task for `symbol`.

    The function replaces operators if this improves the plan. For example, cells replace an RNN.
    """

    def plan(task: Task) -> Partition:
        if len(_list_forms(symbol, task.settings)) == 1:
            return plan_task(task)
        return plan_task(read_trained(symbol, shapes, task.settings, Observer(), task.states))

    return plan


def plan_task(task: Task, observe: Observer | None = None) -> Partition:
    """Plan a task from `read_task`. Return the plan with the graph to run."""
    return make_partition(task, observe or observe_by_environment())
