"""Recommend a number of devices and a plan: simulate several plans, and sort them by speed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tofu.errors import InfeasibleError, TofuError, on_one_line
from tofu.formatting import align, format_bytes, format_rate, format_seconds
from tofu.pipeline import Observer, Partition, Task, make_partition
from tofu.plan import Plan
from tofu.planning.settings import DEFAULTS, Settings
from tofu.search.algorithms import DEFAULT_ALGORITHM, SEARCHES
from tofu.simulation.machine import Machine
from tofu.simulation.simulate import DEFAULT_STATES, check_devices, simulate, simulate_one_device, simulate_partition
from tofu.simulation.timeline import Simulation
from tofu.validation import read_integer, read_list

UNCERTAINTY = 1.3  # a machine may be faster or slower by this factor than its file describes
LEAST_GAIN = 1.05  # more devices are recommended only if throughput grows by this factor
ONE_DEVICE, DEFAULT, FREE = "one device", "everything split", "replicas free"
WITHIN_MEMORY, DATA_PARALLEL = "replicas within memory", "data parallelism"
BASELINE = "data-parallel"


@dataclass(frozen=True)
class TrainingOption:
    """One way to train a model: a number of workers and a kind of plan.

    Attributes
    ----------
    low, high
        Shortest and longest time of a step in seconds, if the speeds in the machine's file are wrong by 30 %.
    plan
        The plan, for `tofu.partition(plan=...)`; None for one device.
    refusal
        The error if no plan of this kind exists, else None.
    """

    workers: int
    name: str
    simulation: Simulation | None = None
    low: float = 0.0
    high: float = 0.0
    plan: Plan | None = None
    refusal: TofuError | None = None

    @property
    def fits(self) -> bool:
        """True if a plan exists and fits into the memory of the devices."""
        return self.simulation is not None and self.simulation.fits

    @property
    def throughput(self) -> float:
        """Samples per second; 0 if the model does not fit."""
        return self.simulation.throughput if self.simulation is not None and self.fits else 0.0


@dataclass(frozen=True)
class Advice:
    """The simulated ways to train. Plans that fit into memory come first, sorted by speed."""

    machine: Machine
    options: tuple[TrainingOption, ...]

    @property
    def best(self) -> TrainingOption | None:
        """The recommended option, or None if no option fits into memory.

        It has the fewest workers among the options within 5 % of the highest throughput.
        """
        fitting = [option for option in self.options if option.fits]
        if not fitting:
            return None
        best_throughput = max(option.throughput for option in fitting)
        return min(
            (option for option in fitting if option.throughput * LEAST_GAIN >= best_throughput),
            key=lambda option: (option.workers, -option.throughput),
        )

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("workers", "plan", "a step", "range", "samples/s", "moved", "memory per worker", "")
        ]
        rows += [self._describe(option) for option in self.options]
        return "\n".join([*align(rows), "", *self._explain(), "", self.verdict])

    def _explain(self) -> Iterator[str]:
        for option in self.options:
            if option.refusal is not None:
                yield f"{option.workers} workers, {option.name}, does not apply: {on_one_line(option.refusal)}"
        yield (
            f"Range: the time if the machine computes {UNCERTAINTY - 1:.0%} faster and moves data {UNCERTAINTY - 1:.0%} slower, "
            "or the reverse."
        )
        if any(option.name == WITHIN_MEMORY and option.plan is not None for option in self.options):
            yield f"{WITHIN_MEMORY.capitalize()}: tensors are replicated if that moves less, as far as memory allows (memory_limit=)."

    def _describe(self, option: TrainingOption) -> tuple[str, ...]:
        simulation = option.simulation
        if simulation is None:
            return str(option.workers), option.name, "-", "", "", "", "", "does not apply: see below"
        memory = f"{format_bytes(max(simulation.worker_bytes))} of {format_bytes(simulation.machine.usable_bytes)}"
        return (
            str(option.workers),
            option.name,
            format_seconds(simulation.seconds),
            f"{format_seconds(option.low)} to {format_seconds(option.high)}",
            format_rate(simulation.throughput),
            format_bytes(simulation.program.remote_bytes),
            memory,
            "" if simulation.fits else "does not fit",
        )

    @property
    def verdict(self) -> str:
        """The recommendation in a sentence or two."""
        best = self.best
        if best is None:
            return f"Nothing fits on {self.machine}: use more devices, a smaller batch, or devices with more memory."
        one_device = next((option for option in self.options if option.workers == 1 and option.fits), None)
        if not any(option.plan for option in self.options):
            return f"Train on one device of {self.machine}: there is no plan for several."
        if best.workers == 1:
            return f"Do not partition: no plan is {LEAST_GAIN - 1:.0%} faster than one device on {self.machine}."
        gain = ", and one device has too little memory"
        if one_device is not None:
            gain = f", {best.throughput / one_device.throughput:.1f} times one device"
        text = f"Train on {best.workers} workers, {best.name}: {format_rate(best.throughput)} samples per second{gain}."
        fastest = max((option for option in self.options if option.fits), key=lambda option: option.throughput)
        if fastest.workers > best.workers:
            gain_of_fastest = fastest.throughput / best.throughput - 1
            text += f" {fastest.workers} workers are only {gain_of_fastest:.1%} faster; more devices should gain {LEAST_GAIN - 1:.0%}."
        if best.name == DATA_PARALLEL:
            text += f' That is algorithm="{BASELINE}"; the model fits whole, so the framework\'s own data parallelism serves as well.'
        return text


def advise(
    task: Task,
    machine: Machine,
    workers: Sequence[int] = (),
    states: int = DEFAULT_STATES,
    report: Callable[[str], None] = lambda stage: None,
    make: Callable[[Task], Partition] = lambda task: make_partition(task, Observer()),
) -> Advice:
    """Simulate a training step on one device and on several, and return all options sorted by speed.

    `workers` lists the numbers of devices to try, by default 2, 4, 8, ... up to all devices. For each number, three
    plans are simulated: the plan for the settings, the plan that replicates as much as fits, and data parallelism.
    `report` is called with a plan's name before `make` makes the plan.

    Raises TofuError for wrong arguments.
    """
    powers_of_two = (1 << power for power in range(1, machine.devices.bit_length()))
    counts = read_counts(workers) or [count for count in powers_of_two if count <= machine.devices]
    for count in counts:
        check_devices(count, machine)
    task = replace(task, states=states)
    options = [option for count in (1, *counts) for option in _list_options(task, machine, count, report, make)]
    _raise_correctable_error(options)
    sorted_options = sorted(
        options, key=lambda option: (not option.fits, -option.throughput, option.simulation is None, option.workers)
    )
    return Advice(machine, tuple(sorted_options))


def read_counts(workers: Any) -> tuple[int, ...]:
    """Return the numbers of workers without repetitions. Raise TofuError for anything but integers >= 2."""
    if isinstance(workers, Iterable) and not isinstance(workers, str):
        workers = [int(count) if isinstance(count, np.integer) else count for count in workers]
    try:
        return tuple(dict.fromkeys(read_list(workers, "workers", partial(read_integer, least=2))))
    except ValueError as error:
        raise TofuError(
            f"workers= is a list of numbers of workers to try, each 2 or more, for example workers=[2, 4]: {error}. "
            "One device is always tried."
        ) from error


def _raise_correctable_error(options: Sequence[TrainingOption]) -> None:
    planned_options = [option for option in options if option.name not in (ONE_DEVICE, DATA_PARALLEL)]
    refusals = [option.refusal for option in planned_options if option.refusal is not None]
    correctable = [refusal for refusal in refusals if not isinstance(refusal, InfeasibleError)]
    if correctable and not any(option.plan for option in planned_options):
        raise correctable[0]


def _list_options(
    task: Task, machine: Machine, workers: int, report: Callable[[str], None], make: Callable[[Task], Partition]
) -> Iterator[TrainingOption]:
    if workers == 1:
        report(ONE_DEVICE)
        simulation = simulate_one_device(task, machine, task.states)
        yield TrainingOption(1, ONE_DEVICE, simulation, *_find_range(simulation, task.states))
        return
    for name, settings in _list_settings(replace(task.settings.over(workers), cache=False), machine).items():
        report(f"{workers} workers, {name}")
        try:
            partition = make(replace(task, settings=settings))
            simulation = simulate_partition(partition, machine, task.states)
        except TofuError as error:
            yield TrainingOption(workers, name, refusal=error)
        else:
            yield TrainingOption(workers, name, simulation, *_find_range(simulation, task.states), partition.plan)


def _list_settings(base: Settings, machine: Machine) -> dict[str, Settings]:
    name = FREE if base.replicate == "free" else DEFAULT if base.algorithm == DEFAULT_ALGORITHM else base.algorithm
    data_parallel = replace(base, algorithm=BASELINE, hints={}, replicate=DEFAULTS["replicate"])
    if base == data_parallel:
        return {DATA_PARALLEL: base}
    settings_by_name = {name: base}
    if base.algorithm in SEARCHES:  # other algorithms take no memory limit
        settings_by_name[WITHIN_MEMORY] = replace(base, memory_limit=machine.usable_bytes)
    return {**settings_by_name, DATA_PARALLEL: data_parallel}


def _find_range(simulation: Simulation, states: int) -> tuple[float, float]:
    seconds = [simulation.seconds]
    for factor in (UNCERTAINTY, 1 / UNCERTAINTY):
        changed_machine = (
            simulation.machine.scale("arithmetic", factor).scale("memory", factor).scale("links", 1 / factor)
        )
        seconds.append(simulate(simulation.program, changed_machine, states=states).seconds)
    return min(seconds), max(seconds)
