"""The pipeline: from a training step that was read to a plan and an execution graph, one line a pass.

A pass is a function from values to one frozen value, which `observe` is told by name: it prints those that TOFU_PRINT lists, and takes
the time of each (`python -m tofu plan --timings`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tofu import _core
from tofu.analysis import OperatorAccess
from tofu.collector import collecting_rarely
from tofu.engine import Engine, Source
from tofu.graph import Graph, Lines, TensorKind
from tofu.lowering import Settled, lower, settle
from tofu.plan import Plan
from tofu.planning.find import Found, check_limit, find_plan, remember_plan
from tofu.planning.memory_limit import Needs
from tofu.planning.settings import Settings
from tofu.planning.undescribed import list_undescribed
from tofu.program import Program, check_program, is_checked, write_program
from tofu.search import Choices, Problem, find_strategies, pose_problem
from tofu.search.cost import count_levels, evaluate
from tofu.search.geometry import count_state_bytes
from tofu.search.solve import Progress
from tofu.search.strategies import mark_drawing
from tofu.search.validation import check_drawn

T = TypeVar("T")


@dataclass
class Observer:
    """Told each pass's name and value as it ends; hands the value on.

    `seconds`: what each pass took, by name, in their order. `shown`: the passes whose values are printed, "all" for every one.
    """

    shown: frozenset[str] = frozenset()
    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def __call__(self, name: str, value: T) -> T:
        """The value, whose pass has ended."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        if name in self.shown or "all" in self.shown:
            print(f"--- {name} ({self.seconds[name]:.3f} s)\n{show_value(value)}", file=sys.stderr)
        self._last = time.perf_counter()
        return value


def show_value(value: Any) -> str:
    """A pass's value as text: of several, one a line."""
    return "\n".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def observe_by_environment() -> Observer:
    """The observer that prints the passes that TOFU_PRINT names, comma separated."""
    names = os.environ.get("TOFU_PRINT", "").split(",")
    return Observer(frozenset(name.strip() for name in names if name.strip()))


@dataclass(frozen=True)
class Task:
    """A model that is read and analysed, before anything is decided: what any number of plans are made for.

    `stock` are the strategies of the graph as it was read, whose operators are whole; `problem` is that of the fully lowered graph, in
    the first arrangement of its steps. `states`: tensors that the optimizer keeps for each weight, which plans within a memory limit leave
    room for.
    """

    source: Source
    stock: tuple[OperatorAccess, ...]
    problem: Problem
    settings: Settings
    engine: Engine
    states: int = 0

    def measure(self, problem: Problem, choices: Choices) -> Needs:
        """Return the bytes that each worker needs for a plan, the optimizer's states included."""
        settled, backend = self.settle(problem, choices), self.engine.backend
        execution = backend.build(
            self.source, settled.problem, settled.choices, write_program(settled.problem, settled.choices)
        )
        measured = backend.measure(execution, settled.problem, settled.choices)
        states = count_state_bytes(problem, choices, self.states)

        def add_states(own: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(one + more for one, more in zip(own, states, strict=True))

        peak = backend.predict_peak(execution, measured)
        return Needs(add_states(measured.worker_bytes), add_states(peak), peak is not measured.worker_bytes)

    def emit(self, problem: Problem, choices: Choices) -> Emitted:
        """Return the program of a plan of the graph that is emitted."""
        program = write_program(problem, choices)
        return Emitted(problem, choices, program, self.engine.backend.find_kernel_bytes(program))

    def settle(self, problem: Problem, choices: Choices) -> Settled:
        """The graph of the model with those operators in parts that need it, for a plan of the lowered one."""
        front_end, undescribed = self.engine.front_end, self.settings.undescribed
        return settle(self.source.graph, self.stock, problem, choices, front_end, undescribed)


@dataclass(frozen=True)
class Emitted:
    """The program that is emitted for a plan, with the graph, and the choices for it, that it is of.

    `kernel_bytes` is what `Backend.find_kernel_bytes` returns.
    """

    problem: Problem
    choices: Choices
    program: Program
    kernel_bytes: Mapping[int, int] | None = None


@dataclass(frozen=True)
class Partition:
    """The result of the pipeline: everything that a runtime needs to train on the workers.

    `problem` and `choices` are of the graph that is emitted, `training` is the backend's execution graph of it. `searched` is the problem
    that plans are made for: its graph has in parts whatever can be.
    """

    problem: Problem
    choices: Choices
    plan: Plan
    training: Any
    task: Task
    searched: Problem
    searched_choices: Choices

    @property
    def source(self) -> Source:
        """The training step as it was read."""
        return self.task.source

    @property
    def graph(self) -> Graph:
        """The model's own graph, with every operator whole."""
        return self.source.graph

    @property
    def whole_step(self) -> Emitted:
        """What `training` was made of."""
        return self.task.emit(self.problem, self.choices)

    def measure_whole(self) -> int:
        """What one device needs for the same step, in bytes; nothing is allocated."""
        return self.task.engine.backend.measure_whole(self.source)


@collecting_rarely()
def analyse_step(source: Source, engine: Engine, settings: Settings, observe: Observer) -> Task:
    """The first half: what can be split, and how. Raises a TofuError of the pass that fails."""
    lowered = observe("lowered", lower(source.graph, engine.front_end.lowerings))
    found = find_strategies(lowered, engine.front_end, settings.undescribed)
    strategies = observe("strategies", mark_drawing(lowered, found, engine.front_end))
    is_lowered = lowered is not source.graph
    whole = find_strategies(source.graph, engine.front_end, settings.undescribed) if is_lowered else found
    stock = observe("stock", whole)
    factors = settings.arrangements[0].factors
    problem = observe("problem", pose_problem(lowered, strategies, factors, moves=engine.moves))
    return Task(source, stock, problem, settings, engine)


@collecting_rarely()
def make_partition(task: Task, observe: Observer, progress: Progress | None = None) -> Partition:
    """The second half: the plan that the settings ask for, and everything that is made of it."""
    started = time.perf_counter()
    found = observe("found", find_plan(task.source.graph, task.problem, task.settings, progress, task.measure))
    partition = build_found(task, found, observe, time.perf_counter() - started)
    check_limit(partition.plan, task.settings, lambda: task.measure(found.problem, found.choices))
    if task.settings.cache and found.claimed_bytes is None and not found.is_predicted:
        remember_plan(partition.plan, task.problem, task.settings)
    return partition


def build_found(task: Task, found: Found, observe: Observer, seconds: float = 0.0) -> Partition:
    """Everything for a plan that was found in `seconds`."""
    front_end, backend = task.engine.front_end, task.engine.backend
    check_drawn(found.problem, found.choices, lambda operator: front_end.draws(operator, task.settings.for_training))
    settled = observe("settled", task.settle(found.problem, found.choices))
    problem, choices = settled.problem, settled.choices
    cost = observe("cost", evaluate(problem, choices))
    program = observe("program", write_program(problem, choices))
    if is_checked():
        check_program(program, cost.total_bytes)
        observe(
            "program-checked", f"every rule is kept, and {program.remote_bytes} bytes are read, as they were counted"
        )
    execution = observe("execution", backend.build(task.source, problem, choices, program))
    measured = observe("memory", backend.measure(execution, problem, choices))
    if is_checked():
        backend.check(execution, problem, choices, measured, cost.total_bytes)
        observe("checked", "every rule is kept, and the bytes read are those counted")
    plan = observe("plan", describe(task, found, settled, cost, measured.worker_bytes, seconds))
    return Partition(problem, choices, plan, execution, task, found.problem, found.choices)


def describe(
    task: Task, found: Found, settled: Settled, cost: _core.Cost, worker_bytes: tuple[int, ...], seconds: float
) -> Plan:
    """The plan as a value of names and numbers."""
    problem, choices, named, graph = settled.problem, settled.choices, settled.named, task.source.graph
    level_bytes, level_waits = count_levels(problem, choices)
    arrangement = found.problem.arrangement
    return Plan(
        workers=task.settings.workers,
        factors=problem.factors,
        tensors=named.tensors,
        operators=named.operators,
        communication_bytes=cost.total_bytes,
        step_bytes=tuple(cost.step_bytes),
        worker_bytes=worker_bytes,
        level_bytes=level_bytes,
        bandwidths=arrangement.bandwidths,
        latencies=arrangement.latencies,
        level_waits=level_waits if arrangement.latencies else (),
        kept=named.kept,
        reread=named.reread,
        algorithm=found.algorithm,
        optimality=found.describe_optimality(cost.total_bytes),
        fingerprint=graph.fingerprint,
        inputs={tensor.name: tensor.shape for tensor in graph.tensors if tensor.kind is TensorKind.INPUT},
        search_seconds=seconds,
        search_bytes=found.search_bytes,
        undescribed=list_undescribed(problem, cost),
        lines=Lines(graph.operators),
    ).sealed()
