"""Implement `tofu.simulate` and `tofu.advise` for JAX steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tofu.engine import Engine, Source
from tofu.errors import UnsupportedError
from tofu.jax.engine import JAX
from tofu.jax.frontend.read_step import check_arguments, read_step
from tofu.jax.partition import DeferredStep
from tofu.jax.partitioned_step import PartitionedStep
from tofu.jax.planning import analyse, plan_step, read_settings
from tofu.pipeline import Observer, Partition, Task
from tofu.planning.settings import Settings
from tofu.simulation.advise import Advice
from tofu.simulation.advise import advise as find_advice
from tofu.simulation.machine import read_machine
from tofu.simulation.simulate import simulate_one_device
from tofu.simulation.timeline import Simulation

ONE_WORKER = 1


def simulate(step: Any, *given: Any) -> Simulation:
    """Predict the time of a step on a machine, as `tofu.simulate` does.

    A partitioned step is simulated on its workers, and a function on one device. `given` is the machine. If `step` is a
    function, pass its arguments or their shapes before the machine. Raise TofuError for a wrong machine or step.
    """
    if isinstance(step, (PartitionedStep, DeferredStep)) and len(given) == 1:
        made = step.planned() if isinstance(step, DeferredStep) else step
        return made.simulate(given[0])
    example_args, machine = _read_given(step, given, "simulate")
    settings = read_settings(ONE_WORKER, {})
    return simulate_one_device(analyse(_read(step, example_args), settings, Observer()), read_machine(machine), 0)


def advise(step: Any, *given: Any, workers: Sequence[int] = (), **options: Any) -> Advice:
    """Recommend a number of devices and a plan for a step, as `tofu.advise` does.

    `given` are the step's arguments or their shapes, and the machine. `workers` lists the numbers of devices to try.
    `options` are `hints`, `replicate`, `search_seconds` and `undescribed`. Raise TofuError for wrong arguments.
    """
    example_args, machine = _read_given(step, given, "advise")
    return advise_source(_read(step, example_args), read_settings(ONE_WORKER, options), machine, workers)


def advise_source(
    source: Source,
    settings: Settings,
    machine: Any,
    workers: Sequence[int] = (),
    *,
    engine: Engine = JAX,
    report: Any = None,
) -> Advice:
    """Recommend how many devices of a machine to use for a traced step.

    `report` is called with a line of text before each plan.
    """

    def make(task: Task) -> Partition:
        return plan_step(source, task.settings, Observer(), engine)

    task = analyse(source, settings, Observer(), engine)
    return find_advice(task, read_machine(machine), workers, 0, report or (lambda stage: None), make)


def _read_given(step: Any, given: Sequence[Any], name: str) -> tuple[Sequence[Any], Any]:
    if len(given) != 2:
        raise UnsupportedError(
            f'tofu.{name} takes a step, a tuple of its arguments and a machine, as in tofu.{name}(step, (state, batch), "8xH100"). '
            f"It was given {len(given)} values after the step."
        )
    check_arguments(given[0])
    return given[0], given[1]


def _read(step: Any, example_args: Sequence[Any]) -> Source:
    if isinstance(step, PartitionedStep):
        raise UnsupportedError(
            f"{step!r} has its plan already. Give the function that it was made of, or simulate it: step.simulate(machine)."
        )
    return read_step(step.step if isinstance(step, DeferredStep) else step, tuple(example_args))
