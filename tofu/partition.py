"""The pipeline: from a symbol and its shapes to a plan and the execution graphs (design section 1).

symbol + shapes -> training graph -> semantic graph     tofu.graph.mxnet
-> operators in parts where that offers more            tofu.lowering
-> strategies of each operator                          tofu.search.strategies
-> search over coarse groups -> choices                 tofu.search.problem
-> whole operators again where their kernel will do     tofu.lowering
-> execution graphs for training and for inference      tofu.execution
-> plan                                                 tofu.plan
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from tofu import _mxnet
from tofu.check import check_execution
from tofu.errors import PlanError, raise_together
from tofu.execution import ExecutionGraph, emit
from tofu.execution.emit import shard_name, worker_group
from tofu.graph import Graph, Tensor, TensorKind
from tofu.graph.mxnet import DTYPE_NAMES, TrainingGraph, infer_operator_shapes, read_graph
from tofu.lowering import lower, prepare_inference, settle
from tofu.plan import Plan
from tofu.search import Choices, Problem, factorize, find_strategies
from tofu.search.algorithms import DEFAULT_ALGORITHM, DEFAULT_SEARCH_SECONDS, describe_optimality
from tofu.search.problem import Progress

logger = logging.getLogger("tofu")


@dataclass(frozen=True)
class Settings:
    """What the user asks of a partition, beside the model itself.

    Attributes
    ----------
    workers
        The number of devices, at least 2.
    hints
        Name -> dimension or axis that the plan must take.
    plan
        A plan to apply instead of a search.
    strict_plan
        Whether that plan must be of this very graph; else it is applied where it is feasible.
    for_training
        Whether gradients are wanted at all.
    undescribed
        "error", or "replicate": whether operators without a description are computed whole by every worker.
    cache
        Whether plans are remembered by fingerprint.
    algorithm, search_seconds
        "recursive" or "exact", and how long the exact search may take.
    """

    workers: int
    hints: Mapping[str, Any] | None = None
    plan: Plan | None = None
    strict_plan: bool = True
    for_training: bool = True
    undescribed: str = "error"
    cache: bool = True
    algorithm: str = DEFAULT_ALGORITHM
    search_seconds: float = DEFAULT_SEARCH_SECONDS


@dataclass(frozen=True)
class Partition:
    """The result of the pipeline: everything that a runtime needs to train on the workers.

    `problem` and `choices` are of the graph that is emitted. `searched` is the problem that plans are made for: its graph has in parts
    whatever can be.
    """

    graph: Graph
    problem: Problem
    choices: Choices
    plan: Plan
    training: ExecutionGraph
    source: TrainingGraph
    searched: Problem
    searched_choices: Choices
    undescribed: str = "error"

    @cached_property
    def inference(self) -> ExecutionGraph:
        """The forward graph alone, over the same shards."""
        settled = prepare_inference(
            self.graph, self.searched, self.searched_choices, infer_operator_shapes, self.undescribed
        )
        execution = emit(self.source, settled.problem, settled.choices, inference=True)
        _check(settled.problem, settled.choices, execution)
        return execution


_plans: dict[tuple[object, ...], Plan] = {}


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
    Raises a TofuError of the stage that fails; nothing is half done.
    """
    source = read_graph(symbol, shapes, dtypes, differentiated if settings.for_training else (), updated)
    lowered = lower(source.graph)
    strategies = find_strategies(lowered, infer_operator_shapes, settings.undescribed)
    searched = Problem(lowered, strategies, factorize(settings.workers))
    started = time.perf_counter()
    found, algorithm, optimality = _choose(source.graph, searched, settings, progress)
    seconds = time.perf_counter() - started
    settled = settle(source.graph, searched, found, infer_operator_shapes, settings.undescribed)
    problem, choices = settled.problem, settled.choices
    training = emit(source, problem, choices)
    _check(problem, choices, training)
    cost = problem.evaluate(choices)
    plan = Plan(
        workers=settings.workers,
        factors=problem.factors,
        tensors=problem.tensor_steps(choices),
        operators=problem.operator_steps(choices),
        communication_bytes=cost.total_bytes,
        step_bytes=tuple(cost.step_bytes),
        worker_bytes=plan_worker_bytes(problem, choices, training),
        algorithm=algorithm,
        optimality=optimality,
        fingerprint=source.graph.fingerprint,
        search_seconds=seconds,
    )
    if settings.cache and settings.plan is None:
        remember_plan(plan, settings)
    return Partition(source.graph, problem, choices, plan, training, source, searched, found, settings.undescribed)


def _choose(graph: Graph, problem: Problem, settings: Settings, progress: Progress | None) -> tuple[Choices, str, str]:
    """The choices, how they were found, and how good they are known to be."""
    plan = settings.plan
    if plan is not None:
        if settings.strict_plan and plan.fingerprint != graph.fingerprint:
            raise PlanError(_describe_difference(plan, graph))
        choices = problem.choices_of(plan)
        fixed_operators, fixed_tensors = problem.fix_hints(settings.hints or {})
        wrong = [
            problem.graph.operators[o].name
            for o, fixed in fixed_operators.items()
            if not _agrees(choices.operators[o], fixed)
        ]
        wrong += [
            problem.graph.tensors[t].name
            for t, fixed in fixed_tensors.items()
            if not _agrees(choices.tensors[t], fixed)
        ]
        raise_together(
            PlanError, "The plan and the hints contradict each other; leave one of them out. They differ for:", wrong
        )
        return choices, plan.algorithm, plan.optimality
    remembered = _plans.get(_cache_key(graph.fingerprint, settings)) if settings.cache else None
    if remembered is not None:
        return problem.choices_of(remembered), remembered.algorithm, remembered.optimality
    choices, result = problem.search(settings.hints, progress, settings.algorithm, settings.search_seconds)
    return choices, settings.algorithm, describe_optimality(result, bool(problem.equal.operators))


def _agrees(choice: Any, fixed: list[int]) -> bool:
    return all(wanted in (-2, int(taken)) for taken, wanted in zip(choice, fixed, strict=True))


def remember_plan(plan: Plan, settings: Settings) -> None:
    """Use `plan` from now on wherever its graph is planned with these settings, instead of a search."""
    _plans[_cache_key(plan.fingerprint, settings)] = plan


def _cache_key(fingerprint: str, settings: Settings) -> tuple[object, ...]:
    return fingerprint, settings.workers, settings.algorithm, _hints_key(settings)


def _hints_key(settings: Settings) -> str:
    return repr(sorted((settings.hints or {}).items(), key=lambda item: item[0]))


def _describe_difference(plan: Plan, graph: Graph) -> str:
    missing = [name for name in graph.tensor_index if name not in plan.tensors]
    extra = [name for name in plan.tensors if name not in graph.tensor_index]
    what = "; ".join(
        text
        for text in (
            f"the plan lacks {', '.join(missing[:5])}" if missing else "",
            f"the graph lacks {', '.join(extra[:5])}" if extra else "",
        )
        if text
    )
    what = what or "their names agree, so shapes, types, attributes or the arguments that are trained differ"
    return (
        f"The plan is of another graph (fingerprint {plan.fingerprint[:12]}, this graph has {graph.fingerprint[:12]}): {what}. "
        "Use it with the model and shapes that it was made for, or search again without plan=."
    )


def variable_shards(problem: Problem, choices: Choices) -> Iterator[tuple[Tensor, int, tuple[int, ...]]]:
    """The variables of the graph, and the shape of their shard on each worker."""
    for position, tensor in enumerate(problem.graph.tensors):
        if tensor.kind is not TensorKind.INTERMEDIATE:
            for worker, box in enumerate(problem.shards(choices, position)):
                yield tensor, worker, tuple(int(end - begin) for begin, end in box)


def plan_worker_bytes(problem: Problem, choices: Choices, execution: ExecutionGraph) -> tuple[int, ...]:
    """Bytes that each worker needs, from MXNet's planner without allocating: its shards of all variables, and all buffers."""
    present = {*execution.symbol.list_arguments(), *execution.symbol.list_auxiliary_states()}
    shapes: dict[str, tuple[int, ...]] = {}
    codes: dict[str, int] = {}
    held = [0] * execution.workers
    for tensor, worker, shape in variable_shards(problem, choices):
        held[worker] += prod(shape) * tensor.item_bytes
        name = shard_name(tensor.name, worker)
        if name in present:
            shapes[name], codes[name] = shape, DTYPE_NAMES.index(tensor.dtype)
    planned = _mxnet.plan_memory(execution.symbol.handle.value, shapes, codes)
    return tuple(held[worker] + planned[worker_group(worker)]["pool"] for worker in range(execution.workers))


def check_emitted(problem: Problem, choices: Choices, execution: ExecutionGraph) -> None:
    """Check an execution graph against the rules of design section 7. Raises InternalError."""
    present = {*execution.symbol.list_arguments(), *execution.symbol.list_auxiliary_states()}
    variables = {
        shard_name(tensor.name, worker): shape
        for tensor, worker, shape in variable_shards(problem, choices)
        if shard_name(tensor.name, worker) in present
    }
    shapes = []
    for output in execution.outputs:
        boxes = problem.tensor_shards(output.tensor, output.layout)
        shapes += [tuple(int(end - begin) for begin, end in box) for box in boxes]
    check_execution(execution.symbol, shapes, variables)


def _check(problem: Problem, choices: Choices, execution: ExecutionGraph) -> None:
    """The same, where TOFU_CHECK=1 asks for it."""
    if os.environ.get("TOFU_CHECK", "0") not in ("", "0"):
        check_emitted(problem, choices, execution)
