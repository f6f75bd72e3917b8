"""The pipeline: from a symbol and its shapes to a plan and the execution graphs.

symbol + shapes -> training graph -> semantic graph     tofu.graph.mxnet
-> zeros for what no kernel writes, lengths for what
   reads scratch memory, and operators in parts where
   that offers more                                     tofu.lowering
-> strategies of each operator                          tofu.search.strategies
-> a plan given, remembered or searched -> choices      tofu.planning, tofu.search.problem
-> whole operators again where their kernel will do     tofu.lowering
-> execution graphs for training and for inference      tofu.execution
-> plan                                                 tofu.plan
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tofu import _mxnet
from tofu.check import check_execution, check_traffic
from tofu.execution import ExecutionGraph, emit
from tofu.execution.memory import plan_buffers, plan_worker_bytes
from tofu.graph import Graph, Operator, TensorKind
from tofu.graph.mxnet import TrainingGraph, check_names, infer_operator_shapes, read_graph, read_training
from tofu.graph.refusals import draws_unsaid, refuse_unpartitionable
from tofu.lowering import Settled, fill_unwritten, lower, mend_scratch, prepare_inference, settle
from tofu.plan import Plan
from tofu.planning import Found, Settings, check_limit, find_plan, remember_plan
from tofu.search import Choices, Problem, find_strategies
from tofu.search.feeding import check_drawn
from tofu.search.problem import Progress

DRAWN_IN_TRAINING = ("Dropout", "LeakyReLU", "RNN")


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
        if _is_checked():
            check_emitted(settled.problem, settled.choices, execution)
        return execution


@dataclass(frozen=True)
class Task:
    """A model that is read and analysed, before anything is decided: what any number of plans are made for.

    `problem` is that of the fully lowered graph, in the first arrangement of its steps.
    """

    source: TrainingGraph
    problem: Problem
    settings: Settings

    def emit(self, problem: Problem, choices: Choices) -> tuple[Settled, ExecutionGraph]:
        """The graph of the model with those operators in parts that need it, and its execution graph."""
        undescribed = self.settings.undescribed
        settled = settle(self.source.graph, problem, choices, infer_operator_shapes, undescribed)
        return settled, emit(self.source, settled.problem, settled.choices)

    def _draws(self, operator: Operator) -> bool:
        """Whether an operator that may draw random numbers does: some draw for training alone, unless they say otherwise."""
        is_used = self.settings.for_training or operator.attributes.get("mode") == "always"
        return is_used or operator.op not in DRAWN_IN_TRAINING

    def measure(self, problem: Problem, choices: Choices) -> tuple[int, ...]:
        """The bytes that each worker needs for a plan."""
        settled, training = self.emit(problem, choices)
        planned = plan_buffers(settled.problem, settled.choices, training)
        return plan_worker_bytes(settled.problem, settled.choices, training, planned)

    def finish(self, found: Found, seconds: float = 0.0) -> Partition:
        """Everything for a plan that was found in `seconds`."""
        graph = self.source.graph
        check_drawn(found.problem, found.choices, self._draws)
        settled, training = self.emit(found.problem, found.choices)
        problem, choices = settled.problem, settled.choices
        planned = plan_buffers(problem, choices, training)
        cost = problem.evaluate(choices)
        if _is_checked():
            check_emitted(problem, choices, training, planned)
            check_traffic(planned, cost.total_bytes)
        plan = Plan(
            workers=self.settings.workers,
            factors=problem.factors,
            tensors=problem.tensor_steps(choices),
            operators=problem.operator_steps(choices),
            communication_bytes=cost.total_bytes,
            step_bytes=tuple(cost.step_bytes),
            worker_bytes=plan_worker_bytes(problem, choices, training, planned),
            level_bytes=problem.level_bytes(choices),
            bandwidths=found.problem.arrangement.bandwidths,
            kept=problem.tensor_names(choices.kept),
            reread=problem.tensor_names(choices.reread),
            algorithm=found.algorithm,
            optimality=found.describe_optimality(cost.total_bytes),
            fingerprint=graph.fingerprint,
            inputs={tensor.name: tensor.shape for tensor in graph.tensors if tensor.kind is TensorKind.INPUT},
            search_seconds=seconds,
            search_bytes=found.search_bytes,
        ).sealed()
        return Partition(
            graph,
            problem,
            choices,
            plan,
            training,
            self.source,
            found.problem,
            found.choices,
            self.settings.undescribed,
        )


def read_task(
    symbol: Any,
    shapes: Mapping[str, tuple[int, ...]],
    settings: Settings,
    *,
    dtypes: Mapping[str, Any] | None = None,
    differentiated: Collection[str] = (),
    updated: Collection[str] = (),
) -> Task:
    """The first half of the pipeline, up to the strategies of each operator. Arguments and errors are those of `compile_partition`."""
    source = read_graph(symbol, shapes, dtypes, differentiated if settings.for_training else (), updated)
    source = replace(source, graph=mend_scratch(fill_unwritten(source.graph)))
    lowered = lower(source.graph)
    strategies = find_strategies(lowered, infer_operator_shapes, settings.undescribed)
    pairs = zip(lowered.operators, strategies, strict=True)
    strategies = tuple(replace(a, is_random=True) if draws_unsaid(o, not a.axes) else a for o, a in pairs)
    first, *_ = settings.arrangements
    return Task(source, Problem(lowered, strategies, first.factors), settings)


def read_trained(symbol: Any, shapes: Mapping[str, tuple[int, ...]], settings: Settings) -> Task:
    """The task of a plain symbol, of which every argument but the inputs and labels is learned. Raises a TofuError for what no plan
    can be made of, and for names and shapes that are not the model's.
    """
    refuse_unpartitionable(symbol)
    check_names(symbol, shapes)
    inputs, learned = read_training(symbol, shapes)
    return read_task(symbol, inputs, settings, differentiated=learned, updated=learned)


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
    task = read_task(symbol, shapes, settings, dtypes=dtypes, differentiated=differentiated, updated=updated)
    return plan_task(task, progress)


def plan_task(task: Task, progress: Progress | None = None) -> Partition:
    """The second half of the pipeline: the plan that the task's settings ask for, and everything that is made of it."""
    settings = task.settings
    started = time.perf_counter()
    found = find_plan(task.source.graph, task.problem, settings, progress, task.measure)
    partition = task.finish(found, time.perf_counter() - started)
    check_limit(partition.plan, settings)
    if settings.cache and found.claimed_bytes is None:
        remember_plan(partition.plan, task.problem, settings)
    return partition


def check_emitted(
    problem: Problem, choices: Choices, execution: ExecutionGraph, planned: _mxnet.PlannedGraph | None = None
) -> None:
    """Check an execution graph, whose buffers may be planned already, against the rules of `tofu.check`. Raises InternalError."""
    shapes = []
    for output in execution.outputs:
        boxes = problem.tensor_shards(output.tensor, output.layout)
        shapes += [tuple(int(end - begin) for begin, end in box) for box in boxes]
    check_execution(planned or plan_buffers(problem, choices, execution), shapes)


def _is_checked() -> bool:
    """Whether execution graphs are checked before they are bound; TOFU_CHECK=0 says no."""
    return os.environ.get("TOFU_CHECK", "1") not in ("", "0")
