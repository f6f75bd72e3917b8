"""Predict the memory of a step on one device and on each worker.

All workers need the same memory, because their shards have equal shapes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType

from tofu.jax.backend.buffers import find_overwritten, predict_temporaries
from tofu.jax.backend.spmd import SpmdProgram
from tofu.jax.backend.xla_operations import count_bytes
from tofu.jax.frontend.equations import Step, list_operands
from tofu.jax.frontend.read_step import Native
from tofu.jax.frontend.trace import eliminate_dead_code, read_jaxpr
from tofu.jax.frontend.versions import find_body, in_precision
from tofu.pipeline import Partition
from tofu.program import write_short_program
from tofu.report.memory import MemoryComparison
from tofu.search import Choices

LEGEND = {
    "": "Arguments, constants and results are exact.",
    "temporaries": "Temporaries are predicted for XLA's fusion and order of operations on CPUs.",
    "  never read": "Never read: arguments that jax.jit leaves out of the program.",
    "  over donated arguments": "Results written over donated arguments are counted with the arguments.",
}


@dataclass(frozen=True)
class StepDeviceMemory:
    """Memory that one device needs for a step, in bytes.

    Attributes
    ----------
    name
        Heading of the column, such as "each of 8 workers".
    arguments_bytes
        All arguments, including the state.
    unread_bytes
        Arguments that do not affect any result. Included in `arguments_bytes`.
    constants_bytes
        Arrays that the step uses but does not take as arguments, or the worker's shards of them.
    results_bytes
        All results, including the next state.
    overwritten_bytes
        Results that reuse the memory of arguments (`donate_argnums`). Included in `results_bytes`.
    temporaries_bytes
        Values that exist only while the step runs.
    """

    name: str
    arguments_bytes: int
    unread_bytes: int
    constants_bytes: int
    results_bytes: int
    overwritten_bytes: int
    temporaries_bytes: int

    @property
    def parts(self) -> dict[str, int]:
        """Label and bytes of each row, such as {"arguments": 1024}."""
        return {
            "arguments": self.arguments_bytes,
            "  never read": self.unread_bytes,
            "constants": self.constants_bytes,
            "results": self.results_bytes,
            "  over donated arguments": self.overwritten_bytes,
            "temporaries": self.temporaries_bytes,
        }

    @property
    def total(self) -> tuple[str, int]:
        """Label and bytes of the total."""
        return "needed", self.needed_bytes

    @property
    def facts(self) -> dict[str, int | str]:
        """Rows below the total. A `StepDeviceMemory` has none."""
        return {}

    @property
    def needed_bytes(self) -> int:
        """Bytes of memory that the device needs."""
        new = self.results_bytes - self.overwritten_bytes
        return self.arguments_bytes + self.constants_bytes + new + self.temporaries_bytes


@dataclass(frozen=True)
class StepMemory(MemoryComparison):
    """A table of the memory that a step needs on one device and on each worker.

    If the step was compiled, `compiled` has the bytes that JAX's compiler reports for a worker.
    """

    heading = "memory of a step"
    legend = LEGEND

    workers: int
    one_device: StepDeviceMemory
    worker: StepDeviceMemory
    compiled: StepDeviceMemory | None = None

    @property
    def columns(self) -> list[tuple[str, StepDeviceMemory]]:
        """Heading and numbers of each column."""
        devices = (self.one_device, self.worker if self.workers > 1 else None, self.compiled)
        return [(device.name, device) for device in devices if device is not None]

    @property
    def largest(self) -> StepDeviceMemory:
        """The memory of one worker. All workers need the same memory."""
        return self.worker


def predict_memory(partition: Partition) -> StepMemory:
    """Predict the memory of a step on one device and on each worker.

    This needs no devices: the worker's program is traced, but not compiled.
    """
    native = partition.source.native
    return StepMemory(partition.plan.workers, predict_one_device(native), predict_worker(native, partition.choices))


def predict_one_device(native: Native) -> StepDeviceMemory:
    """Predict the memory of the step on one device."""
    whole = native.original
    return _count("one device", whole, native.donated, tuple(whole.constants))


def predict_worker(native: Native, choices: Choices) -> StepDeviceMemory:
    """Predict the memory of each worker."""
    return measure_program(SpmdProgram(native, write_short_program(choices)))


def measure_program(program: SpmdProgram) -> StepDeviceMemory:
    """Count the memory of each worker that runs a program."""
    native = program.native
    with in_precision(native.double):
        local = read_worker_program(program)
    count = program.workers.count
    name = f"each of {count} workers" if count > 1 else "the worker"
    return _count(name, local, native.donated, local.inputs[len(program.step.inputs) :])


def read_compiled(compiled: Any) -> StepDeviceMemory:
    """Return the memory of a compiled step, as reported by XLA, JAX's compiler.

    XLA counts constants as arguments. It counts a small table of addresses as part of the results.
    """
    reported = compiled.memory_analysis()
    return StepDeviceMemory(
        "XLA's count",
        int(reported.argument_size_in_bytes),
        0,
        0,
        int(reported.output_size_in_bytes),
        int(reported.alias_size_in_bytes),
        int(reported.temp_size_in_bytes),
    )


def read_worker_program(program: SpmdProgram) -> Step:
    """Trace the program that one worker runs on its shards."""
    shape, names = program.workers.mesh_axes
    mesh: Any = AbstractMesh(shape, names, axis_types=(AxisType.Auto,) * len(names))
    closed = jax.make_jaxpr(program.map_over_mesh(mesh))(*program.argument_structs(mesh))
    (call,) = (eqn for eqn in closed.jaxpr.eqns if eqn.primitive.name == "shard_map")
    step = read_jaxpr(find_body(call), is_planned=False)
    number_by_operand = dict(zip(call.invars, step.inputs, strict=True))
    tables = {
        number_by_operand[variable]: table
        for variable, table in zip(closed.jaxpr.constvars, closed.consts, strict=True)
    }
    inputs = tuple(number_by_operand[variable] for variable in closed.jaxpr.invars)
    return eliminate_dead_code(replace(step, inputs=inputs, constants={**step.constants, **tables}))


def _count(name: str, step: Step, donated: Collection[int], constants: Sequence[int]) -> StepDeviceMemory:
    constant_set = frozenset(constants)
    arguments = [number for number in step.inputs if number not in constant_set]
    tables = [number for number in step.constants if number not in constant_set]
    results = step.result_types
    read = {*list_operands(step.equations), *(x for x in step.outputs if isinstance(x, int))}
    overwritten = find_overwritten(step, donated)

    def add_up(numbers: Iterable[int]) -> int:
        return sum(count_bytes(step.types[number]) for number in numbers)

    return StepDeviceMemory(
        name,
        add_up(arguments),
        add_up(number for number in arguments if number not in read),
        add_up(constants),
        sum(map(count_bytes, results)),
        sum(count_bytes(results[position]) for position in overwritten),
        predict_temporaries(step, overwritten) + add_up(tables),
    )
