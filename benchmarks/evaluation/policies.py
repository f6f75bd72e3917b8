"""The ways to train that section 7.1 of the paper compares, simulated on one machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from benchmarks.evaluation.placement import measure_placed_memory, place_layers, spread_tasks
from benchmarks.evaluation.swapping import swap
from tests.models.paper import PaperModel
from tofu.errors import TofuError
from tofu.mxnet.planning import plan_task
from tofu.planning.settings import Settings
from tofu.program import PlannedProgram
from tofu.simulation.events import run_tasks
from tofu.simulation.machine import Machine
from tofu.simulation.simulate import measure_one_device, measure_partition, simulate, write_one_device_program
from tofu.simulation.tasks import make_tasks

STATES = 1  # the paper counts three times the weights: weight, gradient, one history
DEVICES = 8

Plan: TypeAlias = "tuple[PlannedProgram, tuple[int, ...]] | TofuError"


class Programs:
    """Programs of one model for several batch sizes. Each is built once, and simulated on several machines.

    `build` returns the model of a batch size.
    """

    def __init__(self, model: str, build: Callable[[int], PaperModel]) -> None:
        self.model = model
        self._build = build
        self.one_device = cache(self._emit_one_device)
        self.partition = cache(self._partition)

    def _emit_one_device(self, batch: int) -> tuple[PlannedProgram, int]:
        task = self._build(batch).read(Settings(workers=2, cache=False))
        return write_one_device_program(task), measure_one_device(task, STATES)

    def _partition(self, batch: int, algorithm: str) -> Plan:
        settings = Settings(workers=DEVICES, algorithm=algorithm, cache=False)
        try:
            partition = plan_task(self._build(batch).read(settings))
        except TofuError as error:
            return error
        return partition.program, measure_partition(partition, STATES)


@dataclass(frozen=True)
class PolicyOutcome:
    """Samples per second of all devices, for one model and one way to train; 0 if no batch fits.

    `communication` is the share of the time that is not computation.
    """

    model: str
    policy: str
    batch: int = 0
    throughput: float = 0.0
    communication: float = 0.0
    needed_bytes: int = 0

    @property
    def fits(self) -> bool:
        return self.throughput > 0


def run_ideal(programs: Programs, batch: int, machine: Machine) -> PolicyOutcome:
    """Simulate one device with unlimited memory. Return 8 times its throughput."""
    program, needed = programs.one_device(batch)
    return PolicyOutcome(programs.model, "ideal", batch, DEVICES * _get_throughput(program, machine), 0.0, needed)


def run_small_batch(programs: Programs, batches: Sequence[int], machine: Machine) -> PolicyOutcome:
    """Simulate one device at the largest batch that fits. Return 8 times its throughput."""
    for batch in batches:
        program, needed = programs.one_device(batch)
        if needed <= machine.usable_bytes:
            throughput = DEVICES * _get_throughput(program, machine)
            return PolicyOutcome(programs.model, "small batch", batch, throughput, 0.0, needed)
    return PolicyOutcome(programs.model, "small batch")


def _get_throughput(program: PlannedProgram, machine: Machine) -> float:
    return simulate(program, machine, states=STATES).throughput


def run_partitioned(programs: Programs, batches: Sequence[int], machine: Machine) -> PolicyOutcome:
    """Simulate the plan of Tofu's recursive search at the largest batch that fits."""
    for batch in batches:
        planned = programs.partition(batch, "recursive")
        if isinstance(planned, TofuError):
            continue
        program, needed = planned
        if max(needed) <= machine.usable_bytes:
            simulated = simulate(program, machine, states=STATES)
            return PolicyOutcome(
                programs.model, "Tofu", batch, simulated.throughput, simulated.waiting_share, max(needed)
            )
    return PolicyOutcome(programs.model, "Tofu")


def run_swapping(programs: Programs, batches: Sequence[int], machine: Machine) -> PolicyOutcome:
    """Simulate devices that each train the whole model and swap with the host. Take the fastest batch."""
    return max((_swap(programs, batch, machine) for batch in batches), key=lambda outcome: outcome.throughput)


def _swap(programs: Programs, batch: int, machine: Machine) -> PolicyOutcome:
    program, _ = programs.one_device(batch)
    tasks = make_tasks(program, machine, STATES)
    seconds = swap(program, tasks, machine.usable_bytes, machine.host / DEVICES, STATES)
    if seconds is None:
        return PolicyOutcome(programs.model, "swapping")
    communication = 1 - float(tasks.seconds.sum()) / seconds
    return PolicyOutcome(
        programs.model, "swapping", batch, DEVICES * batch / seconds, communication, machine.usable_bytes
    )


def run_placement(programs: Programs, batches: Sequence[int], machine: Machine) -> PolicyOutcome:
    """Simulate layers placed on devices in turn, with pipelined time steps. Take the largest batch that fits."""
    for batch in batches:
        program, _ = programs.one_device(batch)
        devices = place_layers(program, DEVICES)
        needed = max(measure_placed_memory(program, devices, STATES))
        if needed <= machine.usable_bytes:
            tasks = spread_tasks(program, devices, machine, STATES)
            seconds = float(run_tasks(tasks)[1].max())
            communication = 1 - float(tasks.seconds[~tasks.is_fetch].sum()) / DEVICES / seconds
            return PolicyOutcome(programs.model, "operator placement", batch, batch / seconds, communication, needed)
    return PolicyOutcome(programs.model, "operator placement")
