"""The pipeline: from a training step to a plan and an execution graph.

`analyse_step` and `make_partition` call the planner's passes (processing stages) in order. Each pass returns one frozen
value. An `Observer` records the value and the time of each pass, for `python -m tofu plan --timings` and the
environment variable TOFU_PRINT.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from tofu import _core
from tofu.analysis import OperatorAccess
from tofu.engine import Engine, Measured, Source
from tofu.formatting import format_count
from tofu.graph import Graph, SourceLines, TensorKind
from tofu.host.garbage_collection import collect_rarely
from tofu.lowering import lower, restore_whole_operators
from tofu.plan import Plan
from tofu.planning.progress import show_progress
from tofu.planning.selection import Selection, check_limit, remember_plan, select_plan
from tofu.planning.settings import Settings
from tofu.planning.undescribed import list_undescribed
from tofu.program import PlannedProgram, check_program, is_checked, write_program
from tofu.search import Choices, Problem, find_strategies, make_problem
from tofu.search.choices import name_choices
from tofu.search.cost import count_levels, evaluate
from tofu.search.feasibility import check_random_operators
from tofu.search.geometry import count_state_bytes
from tofu.search.strategies import mark_random

T = TypeVar("T")

WRITTEN_WHEN_BOUND = frozenset(("program", "program-checked", "execution", "checked", "all"))
"""These passes run only when the devices are known, or if TOFU_PRINT lists one of them."""


@dataclass
class Observer:
    """Records the time of the planner's passes, and prints results on request.

    Attributes
    ----------
    shown
        The names of the passes whose results are printed. "all" stands for all passes.
    seconds
        The time of each pass in seconds, by name.
    """

    shown: frozenset[str] = frozenset()
    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def __call__(self, name: str, value: T) -> T:
        """Record the time of the pass `name`, which has just returned `value`. Return `value`."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        if name in self.shown or "all" in self.shown:
            print(f"--- {name} ({self.seconds[name]:.3f} s)\n{show_value(value)}", file=sys.stderr)
        self._last = time.perf_counter()
        return value


def show_value(value: Any) -> str:
    """Return a value as text. Each item of a list or tuple is a line."""
    return "\n".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def observe_by_environment() -> Observer:
    """Return an observer that prints the passes named in the environment variable TOFU_PRINT."""
    names = os.environ.get("TOFU_PRINT", "").split(",")
    return Observer(frozenset(name.strip() for name in names if name.strip()))


@dataclass(frozen=True)
class Task:
    """A training step with all data that the planner needs.

    Attributes
    ----------
    source
        The step that the front end returned.
    whole_accesses
        The possible splits of each operator in `source`.
    problem
        The search problem. In its graph, some operators are *lowered*: replaced by several smaller operators.
    states
        Number of arrays that the optimizer keeps for each weight. They count toward a memory limit.
    """

    source: Source
    whole_accesses: tuple[OperatorAccess, ...]
    problem: Problem
    settings: Settings
    engine: Engine
    states: int = 0

    def measure(self, choices: Choices) -> Measured:
        """Return the memory that each worker needs for the split `choices`, including the optimizer's arrays."""
        restored, backend = self.restore_whole_operators(choices), self.engine.backend
        measured = backend.measure(self.source, restored)
        predicted = backend.predict_peak(self.source, restored)
        state_bytes = count_state_bytes(choices, self.states)

        def add_states(worker_bytes: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(map(sum, zip(worker_bytes, state_bytes, strict=True)))

        return Measured(add_states(measured.worker_bytes), None if predicted is None else add_states(predicted))

    def write_program(self, choices: Choices) -> PlannedProgram:
        """Return the program of all workers for the split `choices`.

        If the backend fuses operators, the program also lists the bytes that kernels read and write.
        """
        program = write_program(choices)
        return replace(program, kernel_bytes=self.engine.backend.find_kernel_bytes(program))

    def restore_whole_operators(self, choices: Choices) -> Choices:
        """Return `choices` with the model's operators instead of the smaller operators that replace them.

        This is done only if the kernel of the model's operator can be split in the same way.
        """
        front_end, undescribed = self.engine.front_end, self.settings.undescribed
        return restore_whole_operators(self.source.graph, self.whole_accesses, choices, front_end, undescribed)


@dataclass(frozen=True)
class Partition:
    """A plan, with all data that is needed to run it.

    Attributes
    ----------
    choices
        The split of each operator and tensor of the graph that runs.
    plan
        The split of each operator and tensor of the user's model, and the number of bytes transferred.
    task
        The training step that was planned.
    selection
        The result of the search: the split, the algorithm, and how close to optimal the plan is.
    """

    choices: Choices
    plan: Plan
    task: Task
    selection: Selection

    @cached_property
    def training(self) -> Any:
        """The graph that the framework runs on all workers. The first access builds and checks it."""
        return build_execution(self, observe_by_environment())

    @property
    def source(self) -> Source:
        """The training step, as the front end returned it."""
        return self.task.source

    @property
    def graph(self) -> Graph:
        """The graph of the user's model, with all its original operators."""
        return self.source.graph

    @property
    def problem(self) -> Problem:
        """The graph that runs and the possible splits of its operators, as the input of a search."""
        return self.choices.problem

    @property
    def searched(self) -> Choices:
        """The split that the search selected. In its graph, smaller operators may replace an operator."""
        return self.selection.choices

    @property
    def program(self) -> PlannedProgram:
        """The program that all workers run. Each access builds it again."""
        return self.task.write_program(self.choices)

    def measure_whole(self) -> int:
        """Return the bytes that one device would need for the whole step."""
        return self.task.engine.backend.measure_whole(self.source)


@collect_rarely()
def analyse_step(source: Source, engine: Engine, settings: Settings, observe: Observer) -> Task:
    """Find the axes along which each operator of a training step can be split. Raise TofuError if this fails."""
    lowered = observe("lowered", lower(source.graph, engine.front_end.lowerings))
    found = find_strategies(lowered, engine.front_end, settings.undescribed)
    strategies = observe("strategies", mark_random(lowered, found, engine.front_end))
    is_lowered = lowered is not source.graph
    whole_accesses = find_strategies(source.graph, engine.front_end, settings.undescribed) if is_lowered else found
    observe("whole_strategies", whole_accesses)
    factors = settings.arrangements[0].factors
    problem = observe("problem", make_problem(lowered, strategies, factors, rules=engine.rules))
    return Task(source, whole_accesses, problem, settings, engine)


@collect_rarely()
def make_partition(task: Task, observe: Observer) -> Partition:
    """Select a plan for an analysed training step, and measure its memory."""
    started = time.perf_counter()
    graph, workers = task.source.graph, task.settings.workers
    with show_progress(f"{len(graph.operators):,} operators over {format_count(workers, 'worker')}"):
        selection = observe("selected", select_plan(graph, task.problem, task.settings, task.measure))
        partition = build_partition(task, selection, observe, time.perf_counter() - started)
        check_limit(partition.plan, task.settings, lambda: task.measure(selection.choices))
    if task.settings.cache and selection.claimed_bytes is None and not selection.is_predicted:
        remember_plan(partition.plan, task.problem, task.settings)
    return partition


def build_partition(task: Task, selection: Selection, observe: Observer, seconds: float = 0.0) -> Partition:
    """Build the partition for a selected plan. `seconds` is the time that the selection took."""
    front_end, backend = task.engine.front_end, task.engine.backend
    check_random_operators(selection.choices, lambda operator: front_end.draws(operator, task.settings.for_training))
    choices = observe("restored", task.restore_whole_operators(selection.choices))
    cost = observe("cost", evaluate(choices))
    measured = observe("memory", backend.measure(task.source, choices))
    plan = observe("plan", describe(task, selection, choices, cost, measured.worker_bytes, seconds))
    partition = Partition(choices, plan, task, selection)
    if observe.shown & WRITTEN_WHEN_BOUND:
        _ = partition.training
    return partition


@collect_rarely()
def build_execution(partition: Partition, observe: Observer) -> Any:
    """Build the graph that the framework runs on all workers. Raise InternalError if it is wrong."""
    backend, plan = partition.task.engine.backend, partition.plan
    program = observe("program", write_program(partition.choices))
    if is_checked():
        check_program(program, plan.communication_bytes)
        observe("program-checked", f"every rule holds, and the program reads the {program.remote_bytes} bytes counted")
    execution = observe("execution", backend.build(partition.source, program))
    if is_checked():
        backend.check(execution, partition.choices, plan.worker_bytes, plan.communication_bytes)
        observe("checked", "every rule holds, and the execution graph reads the bytes counted")
    return execution


def describe(
    task: Task, selection: Selection, choices: Choices, cost: _core.Cost, worker_bytes: tuple[int, ...], seconds: float
) -> Plan:
    """Return the plan for `choices`. It refers to operators and tensors by name, not by number."""
    problem, named, graph = choices.problem, name_choices(choices), task.source.graph
    level_bytes, level_waits = count_levels(choices)
    arrangement = selection.choices.problem.arrangement
    return Plan(
        workers=task.settings.workers,
        factors=problem.factors,
        tensors=named.tensors,
        operators=named.operators,
        communication_bytes=cost.total_bytes,
        step_bytes=tuple(cost.round_bytes),
        worker_bytes=worker_bytes,
        level_bytes=level_bytes,
        bandwidths=arrangement.bandwidths,
        latencies=arrangement.latencies,
        level_waits=level_waits if arrangement.latencies else (),
        kept=named.kept,
        reread=named.reread,
        algorithm=selection.algorithm,
        optimality=selection.describe_optimality(cost.total_bytes),
        fingerprint=graph.fingerprint,
        inputs={tensor.name: tensor.shape for tensor in graph.tensors if tensor.kind is TensorKind.INPUT},
        search_seconds=seconds,
        search_bytes=selection.search_bytes,
        undescribed=list_undescribed(problem, cost),
        measured=task.engine.backend.measured,
        lines=SourceLines(graph.operators),
    ).sealed()
