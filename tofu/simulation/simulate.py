"""Simulate a partitioned model on a machine, or the same model on one device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tofu.errors import TofuError
from tofu.graph import Graph, TensorKind
from tofu.pipeline import Partition, Task
from tofu.program import PlannedProgram
from tofu.search import Choices
from tofu.search.geometry import count_state_bytes
from tofu.search.topology import Arrangement
from tofu.simulation.events import run_tasks
from tofu.simulation.machine import Machine
from tofu.simulation.tasks import make_tasks
from tofu.simulation.timeline import Simulation
from tofu.validation import read_integer, show

DEFAULT_STATES = 1  # arrays that an optimizer stores for each weight, such as a momentum


def read_states(states: Any) -> int:
    """Return `states`. Raise TofuError if it is not an integer >= 0."""
    try:
        return read_integer(int(states) if isinstance(states, np.integer) else states, "states")
    except ValueError as error:
        raise TofuError(
            f"states= is the number of tensors that the optimizer keeps for each weight (1 for a momentum, 2 for Adam), "
            f"not {show(states)}."
        ) from error


def simulate(
    program: PlannedProgram,
    machine: Machine,
    *,
    states: int = DEFAULT_STATES,
    worker_bytes: tuple[int, ...] = (),
    with_fetches: bool = True,
) -> Simulation:
    """Simulate a training step of a program on a machine.

    The step ends with the weight updates of an optimizer, which has `states` arrays for each weight. With
    `with_fetches=False`, communication takes no time (section 7.3). Raises TofuError if the machine has too few
    devices.
    """
    workers = program.workers
    check_devices(workers, machine)
    tasks = make_tasks(program, machine, states)
    if not with_fetches:
        tasks = replace(tasks, seconds=np.where(tasks.is_fetch, 0.0, tasks.seconds))
    start, end = (machine.step + seconds for seconds in run_tasks(tasks))
    return Simulation(machine, workers, count_samples(program.graph), program, tasks, start, end, worker_bytes)


def check_devices(workers: int, machine: Machine) -> None:
    """Raise TofuError if a machine has fewer devices than a plan has workers."""
    if workers > machine.devices:
        raise TofuError(
            f"{machine} has {machine.devices} devices, and the plan {workers} workers. Plan for fewer, or choose a larger machine."
        )


def simulate_partition(partition: Partition, machine: Machine, states: int = DEFAULT_STATES) -> Simulation:
    """Simulate a partitioned model. The result includes the memory that each worker needs."""
    return simulate(partition.program, machine, states=states, worker_bytes=measure_partition(partition, states))


def measure_partition(partition: Partition, states: int = DEFAULT_STATES) -> tuple[int, ...]:
    """Return each worker's peak memory in bytes, with `states` arrays of the optimizer for each weight."""
    state_bytes = count_state_bytes(partition.choices, states)
    predicted = partition.task.engine.backend.predict_peak(partition.source, partition.choices)
    peak_bytes = predicted or partition.plan.worker_bytes
    return tuple(map(sum, zip(peak_bytes, state_bytes, strict=True)))


def simulate_one_device(task: Task, machine: Machine, states: int = DEFAULT_STATES) -> Simulation:
    """Simulate the whole model on one device of a machine."""
    program, worker_bytes = write_one_device_program(task), (measure_one_device(task, states),)
    return simulate(program, machine, states=states, worker_bytes=worker_bytes)


def measure_one_device(task: Task, states: int = DEFAULT_STATES) -> int:
    """Return the peak memory in bytes if one device runs the whole model, including the optimizer's arrays."""
    graph = task.source.graph
    return task.engine.backend.predict_whole_peak(task.source) + states * sum(
        tensor.size_bytes for position, tensor in enumerate(graph.tensors) if position in graph.updated
    )


def write_one_device_program(task: Task) -> PlannedProgram:
    """Return the program of one device that runs the whole model."""
    problem = task.problem.arrange(Arrangement(()))
    graph = problem.graph
    operator_count, tensor_count = len(graph.operators) + len(graph.updates), len(graph.tensors)
    choices = Choices(problem, np.zeros((operator_count, 0), np.int32), np.zeros((tensor_count, 0), np.int32))
    return task.write_program(task.restore_whole_operators(choices))


def count_samples(graph: Graph) -> int:
    """Return the number of samples in a step: the first dimension of the first input, or 1."""
    inputs = [tensor.shape for tensor in graph.tensors if tensor.kind is TensorKind.INPUT]
    return next((shape[0] for shape in inputs if shape), 1)
