"""The pipeline: from a training step to a plan and an execution graph, one line for each pass.

A pass is a function from values to one frozen value. `observe` receives each value by name: it measures the time of each pass
(`python -m tofu plan --timings`), and prints the values that TOFU_PRINT lists.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tofu import _core
from tofu.analysis import OperatorAccess
from tofu.engine import Engine, Measured, Source
from tofu.graph import Graph, SourceLines, TensorKind
from tofu.host.garbage_collection import collect_rarely
from tofu.lowering import lower, restore_whole_operators
from tofu.plan import Plan
from tofu.planning.selection import Selection, check_limit, remember_plan, select_plan
from tofu.planning.settings import Settings
from tofu.planning.undescribed import list_undescribed
from tofu.program import PlannedProgram, check_program, is_checked, write_program
from tofu.search import Choices, Problem, find_strategies, pose_problem
from tofu.search.choices import name_choices
from tofu.search.cost import count_levels, evaluate
from tofu.search.feasibility import check_drawn
from tofu.search.geometry import count_state_bytes
from tofu.search.solve import Progress
from tofu.search.strategies import mark_drawing

T = TypeVar("T")


@dataclass
class Observer:
    """Callback that each pass calls with its name and value.

    Attributes
    ----------
    shown
        The passes whose values are printed; "all" prints every one.
    seconds
        The time of each pass, by name, in their order.
    """

    shown: frozenset[str] = frozenset()
    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def __call__(self, name: str, value: T) -> T:
        """Record the end of a pass, and return its value."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        if name in self.shown or "all" in self.shown:
            print(f"--- {name} ({self.seconds[name]:.3f} s)\n{show_value(value)}", file=sys.stderr)
        self._last = time.perf_counter()
        return value


def show_value(value: Any) -> str:
    """Return the value of a pass as text, with one line for each item of a sequence."""
    return "\n".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def observe_by_environment() -> Observer:
    """Return an observer that prints the passes in TOFU_PRINT, separated by commas."""
    names = os.environ.get("TOFU_PRINT", "").split(",")
    return Observer(frozenset(name.strip() for name in names if name.strip()))


@dataclass(frozen=True)
class Task:
    """A training step, read and analysed: any number of plans can be made for it.

    Attributes
    ----------
    source
        The step as the engine read it.
    stock
        The strategies of the graph's whole operators.
    problem
        The problem of the fully lowered graph, in the first arrangement of the settings.
    settings, engine
        The user's settings, and the framework.
    states
        Arrays that the optimizer keeps for each weight. Plans within a memory limit leave room for them.
    """

    source: Source
    stock: tuple[OperatorAccess, ...]
    problem: Problem
    settings: Settings
    engine: Engine
    states: int = 0

    def measure(self, choices: Choices) -> Measured:
        """Return the memory that each worker needs for a plan, optimizer states included."""
        restored, backend = self.restore_whole_operators(choices), self.engine.backend
        execution = backend.build(self.source, write_program(restored))
        measured, predicted = backend.measure(execution, restored), backend.predict_peak(execution)
        states = count_state_bytes(choices, self.states)

        def add_states(counts: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(count + more for count, more in zip(counts, states, strict=True))

        return Measured(add_states(measured.worker_bytes), None, None if predicted is None else add_states(predicted))

    def write_program(self, choices: Choices) -> PlannedProgram:
        """Return the program of a plan, with the bytes that its kernels read and write."""
        program = write_program(choices)
        return replace(program, kernel_bytes=self.engine.backend.find_kernel_bytes(program))

    def restore_whole_operators(self, choices: Choices) -> Choices:
        """Return the choices for the graph to emit, in which only the operators that need it are in parts."""
        front_end, undescribed = self.engine.front_end, self.settings.undescribed
        return restore_whole_operators(self.source.graph, self.stock, choices, front_end, undescribed)


@dataclass(frozen=True)
class Partition:
    """The result of the pipeline: everything that a runtime needs to train on the workers.

    Attributes
    ----------
    choices
        The choices for the graph that is emitted.
    plan
        The same by name, with what the plan costs.
    training
        The backend's execution graph.
    task
        The step that was planned.
    selection
        The choices for the fully lowered graph, and how they were found.
    """

    choices: Choices
    plan: Plan
    training: Any
    task: Task
    selection: Selection

    @property
    def source(self) -> Source:
        """The training step as the engine read it."""
        return self.task.source

    @property
    def graph(self) -> Graph:
        """The model's own graph, with every operator whole."""
        return self.source.graph

    @property
    def problem(self) -> Problem:
        """The problem of the graph that is emitted."""
        return self.choices.problem

    @property
    def searched(self) -> Choices:
        """The choices for the fully lowered graph."""
        return self.selection.choices

    @property
    def program(self) -> PlannedProgram:
        """The program of `training`, written again at each access: it may be large."""
        return self.task.write_program(self.choices)

    def measure_whole(self) -> int:
        """Return the bytes that one device needs for the same step. Nothing is allocated."""
        return self.task.engine.backend.measure_whole(self.source)


@collect_rarely()
def analyse_step(source: Source, engine: Engine, settings: Settings, observe: Observer) -> Task:
    """Run the first half of the pipeline: find how each operator can be split. Raises a TofuError of the pass that fails."""
    lowered = observe("lowered", lower(source.graph, engine.front_end.lowerings))
    found = find_strategies(lowered, engine.front_end, settings.undescribed)
    strategies = observe("strategies", mark_drawing(lowered, found, engine.front_end))
    is_lowered = lowered is not source.graph
    whole = find_strategies(source.graph, engine.front_end, settings.undescribed) if is_lowered else found
    stock = observe("stock", whole)
    factors = settings.arrangements[0].factors
    problem = observe("problem", pose_problem(lowered, strategies, factors, moves=engine.moves))
    return Task(source, stock, problem, settings, engine)


@collect_rarely()
def make_partition(task: Task, observe: Observer, progress: Progress | None = None) -> Partition:
    """Run the second half: select a plan by the settings, and build everything from it."""
    started = time.perf_counter()
    selection = observe("selected", select_plan(task.source.graph, task.problem, task.settings, progress, task.measure))
    partition = build_partition(task, selection, observe, time.perf_counter() - started)
    check_limit(partition.plan, task.settings, lambda: task.measure(selection.choices))
    if task.settings.cache and selection.claimed_bytes is None and not selection.is_predicted:
        remember_plan(partition.plan, task.problem, task.settings)
    return partition


def build_partition(task: Task, selection: Selection, observe: Observer, seconds: float = 0.0) -> Partition:
    """Return the partition for selected choices. `seconds` is the time of the search."""
    front_end, backend = task.engine.front_end, task.engine.backend
    check_drawn(selection.choices, lambda operator: front_end.draws(operator, task.settings.for_training))
    choices = observe("restored", task.restore_whole_operators(selection.choices))
    cost = observe("cost", evaluate(choices))
    program = observe("program", write_program(choices))
    if is_checked():
        check_program(program, cost.total_bytes)
        observe("program-checked", f"every rule holds, and the program reads the {program.remote_bytes} bytes counted")
    execution = observe("execution", backend.build(task.source, program))
    measured = observe("memory", backend.measure(execution, choices))
    if is_checked():
        backend.check(execution, choices, measured, cost.total_bytes)
        observe("checked", "every rule holds, and the execution graph reads the bytes counted")
    plan = observe("plan", describe(task, selection, choices, cost, measured.worker_bytes, seconds))
    return Partition(choices, plan, execution, task, selection)


def describe(
    task: Task, selection: Selection, choices: Choices, cost: _core.Cost, worker_bytes: tuple[int, ...], seconds: float
) -> Plan:
    """Return the plan of choices, as names and numbers."""
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
