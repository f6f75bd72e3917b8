"""Pipeline of a symbol and its shapes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from math import inf
from typing import Any

from tofu.engine import Source
from tofu.errors import InfeasibleError, PlanError, TofuError
from tofu.mxnet.engine import MXNET
from tofu.mxnet.frontend.blocks import has_blocks
from tofu.mxnet.frontend.inference import check_names
from tofu.mxnet.frontend.read_symbol import read_graph, read_training
from tofu.mxnet.frontend.refusals import refuse_unpartitionable
from tofu.mxnet.frontend.unrolled import has_recurrences
from tofu.mxnet.lowerings import fill_unwritten, mend_scratch, unmerge_heads
from tofu.mxnet.settings import find_unroll
from tofu.pipeline import Observer, Partition, Task, analyse_step, make_partition, observe_by_environment
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
) -> Task:
    """Run the first half of the pipeline, up to each operator's strategies, for the arguments of `compile_partition`."""
    observe = observe or observe_by_environment()
    wanted = differentiated if settings.for_training else ()

    def read(unrolled: bool, blocks: int) -> Source:
        source = read_graph(symbol, shapes, dtypes, wanted, updated, unrolled, blocks)
        observe("read", source.graph)
        completed = mend_scratch(fill_unwritten(source.graph))
        return replace(source, graph=observe("completed", unmerge_heads(completed)))

    def analyse(source: Source) -> Task:
        return analyse_step(source, MXNET, settings, observe)

    first, *others = _list_forms(symbol, settings)
    written = read(*first)
    given = settings.plan or settings.saved
    if given is not None:
        named = given.operators.keys()
        known = chain([written], (read(*form) for form in others))
        return analyse(next((form for form in known if named <= form.graph.operator_index.keys()), written))
    forms = [form for form in (read(*form) for form in others) if _may_replace(form, written, settings)]
    return _choose_form(analyse(written), map(analyse, forms)) if forms else analyse(written)


def _list_forms(symbol: Any, settings: Settings) -> list[tuple[bool, int]]:
    """Return the forms in which a symbol may be planned, the first as it is written.

    RNN operators may be unrolled, and operators along a dimension computed in blocks, one for each worker.
    """
    unroll = find_unroll(settings) if has_recurrences(symbol) else "never"
    unrolled = {"never": (False,), "always": (True,), "cheaper": (False, True)}[unroll]
    return [(form, blocks) for blocks in ((1, settings.workers) if has_blocks(symbol) else (1,)) for form in unrolled]


def _may_replace(form: Source, written: Source, settings: Settings) -> bool:
    """Return True for a form unlike the written one, in which every operator with a hint is as it is written."""
    ours, theirs = ({operator.name: operator.op for operator in one.graph.operators} for one in (form, written))
    return ours != theirs and all(name not in theirs or ours.get(name) == theirs[name] for name in settings.hints or {})


def _choose_form(written: Task, others: Iterable[Task]) -> Task:
    """Return the form whose plan has the least communication; of equal forms the first."""
    forms = [(written, _measure_communication(written))]
    if forms[0][1] != 0:
        forms += [(task, _measure_communication(task)) for task in others]
    failed = [moved for _, moved in forms if not isinstance(moved, int)]
    if len(failed) == len(forms):
        raise failed[0]
    return min(forms, key=lambda form: form[1] if isinstance(form[1], int) else inf)[0]


def _measure_communication(task: Task) -> int | TofuError:
    """Return the communication of the form's plan in bytes, or the error if it has none (few samples, hints for the other form)."""
    try:
        return plan_task(task).plan.communication_bytes
    except (InfeasibleError, PlanError) as error:
        return error


def read_trained(
    symbol: Any, shapes: Mapping[str, tuple[int, ...]], settings: Settings, observe: Observer | None = None
) -> Task:
    """Return the task of a plain symbol in which every argument but the inputs and labels is learned.

    Raises a TofuError for a model that cannot be partitioned, and for unknown names and wrong shapes.
    """
    refuse_unpartitionable(symbol)
    check_names(symbol, shapes)
    inputs, learned = read_training(symbol, shapes)
    return read_task(symbol, inputs, settings, differentiated=learned, updated=learned, observe=observe)


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
        return plan_task(read_trained(symbol, shapes, task.settings, Observer()))

    return plan if has_blocks(symbol) else plan_task


def plan_task(task: Task, progress: Progress | None = None, observe: Observer | None = None) -> Partition:
    """Run the second half of the pipeline: the plan that the settings ask for, and everything made from it."""
    return make_partition(task, observe or observe_by_environment(), progress)
