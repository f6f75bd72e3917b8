"""A symbol and its shapes, through the pipeline."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from tofu.errors import InfeasibleError, PlanError, TofuError
from tofu.mxnet.engine import MXNET
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
    """The first half of the pipeline, up to the strategies of each operator. Arguments and errors are those of `compile_partition`."""
    observe = observe or observe_by_environment()

    def read(unrolled: bool) -> Task:
        wanted = differentiated if settings.for_training else ()
        source = read_graph(symbol, shapes, dtypes, wanted, updated, unrolled)
        observe("read", source.graph)
        completed = mend_scratch(fill_unwritten(source.graph))
        source = replace(source, graph=observe("completed", unmerge_heads(completed)))
        return analyse_step(source, MXNET, settings, observe)

    if find_unroll(settings) == "never" or not has_recurrences(symbol):
        return read(unrolled=False)
    if find_unroll(settings) == "always":
        return read(unrolled=True)
    return _choose_form(read(unrolled=False), read(unrolled=True))


def _choose_form(fused: Task, unrolled: Task) -> Task:
    """The one that the plan given is of, or whose plan moves fewer bytes, the fused one where both move as many."""
    given = fused.settings.plan or fused.settings.saved
    if given is not None:
        return unrolled if given.operators.keys() - fused.source.graph.operator_index.keys() else fused
    forms = [(task, _count_moved(task)) for task in (fused, unrolled)]
    failed = [moved for _, moved in forms if not isinstance(moved, int)]
    if len(failed) == len(forms):
        raise failed[0]
    return min(forms, key=lambda form: form[1] if isinstance(form[1], int) else inf)[0]


def _count_moved(task: Task) -> int | TofuError:
    """The bytes that its plan moves, or why it has none: too few samples, or hints that are of the other form."""
    try:
        return plan_task(task).plan.communication_bytes
    except (InfeasibleError, PlanError) as error:
        return error


def read_trained(
    symbol: Any, shapes: Mapping[str, tuple[int, ...]], settings: Settings, observe: Observer | None = None
) -> Task:
    """The task of a plain symbol, of which every argument but the inputs and labels is learned. Raises a TofuError for what no plan
    can be made of, and for names and shapes that are not the model's.
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
    Raises a TofuError of the pass that fails; nothing is half done.
    """
    observe = observe_by_environment()
    task = read_task(
        symbol, shapes, settings, dtypes=dtypes, differentiated=differentiated, updated=updated, observe=observe
    )
    return make_partition(task, observe, progress)


def plan_task(task: Task, progress: Progress | None = None, observe: Observer | None = None) -> Partition:
    """The second half of the pipeline: the plan that the task's settings ask for, and everything that is made of it."""
    return make_partition(task, observe or observe_by_environment(), progress)
