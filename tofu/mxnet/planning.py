"""Pipeline of a symbol and its shapes."""

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
    """Run the first half of the pipeline, up to each operator's strategies, for the arguments of `compile_partition`."""
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
    """Return the form that the given plan is for, or whose plan has less communication; fused if they are equal."""
    given = fused.settings.plan or fused.settings.saved
    if given is not None:
        return unrolled if given.operators.keys() - fused.source.graph.operator_index.keys() else fused
    forms = [(task, _measure_communication(task)) for task in (fused, unrolled)]
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


def plan_task(task: Task, progress: Progress | None = None, observe: Observer | None = None) -> Partition:
    """Run the second half of the pipeline: the plan that the settings ask for, and everything made from it."""
    return make_partition(task, observe or observe_by_environment(), progress)
