"""Pipeline of a symbol and its shapes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from tofu.engine import Source
from tofu.errors import InfeasibleError, PlanError, TofuError
from tofu.graph import Graph
from tofu.mxnet.engine import MXNET
from tofu.mxnet.frontend.blocks import BLOCKED, has_blocks, name_blocks
from tofu.mxnet.frontend.inference import check_names
from tofu.mxnet.frontend.read_symbol import WRITTEN, Form, read_graph, read_training
from tofu.mxnet.frontend.refusals import refuse_unpartitionable
from tofu.mxnet.frontend.unrolled import has_recurrences
from tofu.mxnet.lowerings import fill_unwritten, mend_scratch, unmerge_heads
from tofu.mxnet.settings import find_unroll
from tofu.pipeline import Observer, Partition, Task, analyse_step, make_partition, observe_by_environment
from tofu.plan import Plan
from tofu.planning.settings import Settings
from tofu.search.solve import Progress


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
    """Run the first half of the pipeline, up to each operator's strategies, for the arguments of `compile_partition`.

    Plans within a memory limit leave room for `states` tensors for each weight, which an optimizer keeps.
    """
    observe = observe or observe_by_environment()
    wanted = differentiated if settings.for_training else ()

    def read(form: Form) -> Source:
        source = read_graph(symbol, shapes, dtypes, wanted, updated, form)
        observe("read", source.graph)
        completed = mend_scratch(fill_unwritten(source.graph))
        return replace(source, graph=observe("completed", unmerge_heads(completed)))

    def analyse(source: Source) -> Task:
        return replace(analyse_step(source, MXNET, settings, observe), states=states)

    first, *others = _list_forms(symbol, settings)
    written = read(first)
    given = settings.plan or settings.saved
    if given is not None:
        named = given.operators.keys()
        known = chain([written], map(read, others))
        return analyse(next((source for source in known if named <= source.graph.operator_index.keys()), written))
    sources = [(form, read(form)) for form in others]
    differing = [(form, source) for form, source in sources if _list_operators(source) != _list_operators(written)]
    if not differing:
        return analyse(written)
    return _choose_form(analyse(written), differing, read, analyse)


def _list_forms(symbol: Any, settings: Settings) -> list[Form]:
    """Return the forms in which a symbol may be planned, the first as it is written.

    RNN operators may be unrolled, and operators along a dimension computed in blocks, one for each worker. A plan shows
    which ones are; those with a hint are whole.
    """
    unroll = find_unroll(settings) if has_recurrences(symbol) else "never"
    unrolled = {"never": (False,), "always": (True,), "cheaper": (False, True)}[unroll]
    given, hints = settings.plan or settings.saved, settings.hints or {}

    def divides(name: str) -> bool:
        return name not in hints if given is None else name_blocks(name) in given.operators

    whole = [Form(cells) for cells in unrolled]
    return [
        *whole,
        *(
            replace(form, blocks=settings.workers, divides=divides)
            for form in whole
            if has_blocks(symbol) and settings.workers > 1
        ),
    ]


def _list_operators(source: Source) -> list[tuple[str, str]]:
    return [(operator.name, operator.op) for operator in source.graph.operators]


def _choose_form(
    written: Task,
    others: Iterable[tuple[Form, Source]],
    read: Callable[[Form], Source],
    analyse: Callable[[Source], Task],
) -> Task:
    """Return the form whose plan has the least communication; of equal forms the first.

    With an interconnect, this is the least time of communication. Operators in blocks that the plan does not use are
    left whole.
    """
    chosen, form, plan = written, WRITTEN, _plan_form(written)
    if isinstance(plan, Plan) and plan.communication_bytes == 0:
        return written
    for other, source in others:
        task = analyse(source)
        found = _plan_form(task)
        if _is_better(found, plan):
            chosen, form, plan = task, other, found
    if isinstance(plan, TofuError):
        raise plan
    if form.blocks > 1 and (idle := _find_idle(written.source.graph, chosen.source.graph, plan)):
        narrow = replace(form, divides=lambda name: form.divides(name) and name not in idle)
        narrowed = analyse(read(narrow))
        return chosen if _is_better(plan, _plan_form(narrowed)) else narrowed
    return chosen


def _plan_form(task: Task) -> Plan | TofuError:
    """Return the form's plan, or the error if it has none (few samples, hints for the other form)."""
    try:
        return plan_task(task).plan
    except (InfeasibleError, PlanError) as error:
        return error


def _is_better(found: Plan | TofuError, other: Plan | TofuError) -> bool:
    if not isinstance(found, Plan):
        return False
    return not isinstance(other, Plan) or _count_communication(found) < _count_communication(other)


def _count_communication(plan: Plan) -> float:
    """Return what the search minimised: seconds of communication if the plan has them, otherwise bytes."""
    seconds = plan.communication_seconds
    return plan.communication_bytes if seconds is None else seconds


def _find_idle(written: Graph, divided: Graph, plan: Plan) -> set[str]:
    """Return the operators whose blocks are not split by the plan."""
    idle = set()
    for operator in written.operators:
        name = name_blocks(operator.name)
        is_divided = operator.op in BLOCKED and name in divided.operator_index
        if not is_divided or name in written.operator_index:
            continue
        apart = divided.tensors[divided.operators[divided.operator_index[name]].outputs[0]]
        extents = zip(apart.shape, written.tensors[operator.inputs[0]].shape, strict=False)
        axis = next((d for d, (block, whole) in enumerate(extents) if block != whole), None)
        if axis is not None and axis not in plan.tensors[apart.name]:
            idle.add(operator.name)
    return idle


def read_trained(
    symbol: Any,
    shapes: Mapping[str, tuple[int, ...]],
    settings: Settings,
    observe: Observer | None = None,
    states: int = 0,
) -> Task:
    """Return the task of a plain symbol in which every argument but the inputs and labels is learned.

    `states` is described in `read_task`. Raises a TofuError for a model that cannot be partitioned, and for unknown names and wrong shapes.
    """
    refuse_unpartitionable(symbol)
    check_names(symbol, shapes)
    inputs, learned = read_training(symbol, shapes)
    return read_task(symbol, inputs, settings, differentiated=learned, updated=learned, observe=observe, states=states)


def compile_partition(
    symbol: Any,
    shapes: Mapping[str, tuple[int, ...]],
    settings: Settings,
    *,
    dtypes: Mapping[str, Any] | None = None,
    differentiated: Collection[str] = (),
    updated: Collection[str] = (),
    progress: Progress | None = None,
) -> Partition:
    """Run the pipeline for one model at given shapes.

    `differentiated` and `updated` name the arguments whose gradients are wanted and those that an optimizer updates.
    Raises the TofuError of the pass that fails.
    """
    observe = observe_by_environment()
    task = read_task(
        symbol, shapes, settings, dtypes=dtypes, differentiated=differentiated, updated=updated, observe=observe
    )
    return make_partition(task, observe, progress)


def plan_in_best_form(symbol: Any, shapes: Mapping[str, tuple[int, ...]]) -> Callable[[Task], Partition]:
    """Return a function that plans a plain symbol for the settings of a task, in the form that suits these settings."""

    def plan(task: Task) -> Partition:
        if len(_list_forms(symbol, task.settings)) == 1:
            return plan_task(task)
        return plan_task(read_trained(symbol, shapes, task.settings, Observer(), task.states))

    return plan


def plan_task(task: Task, progress: Progress | None = None, observe: Observer | None = None) -> Partition:
    """Run the second half of the pipeline: the plan that the settings ask for, and everything made from it."""
    return make_partition(task, observe or observe_by_environment(), progress)
