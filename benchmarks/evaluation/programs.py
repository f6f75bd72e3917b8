"""The programs of one model at the batches that are asked for, each made once: machines differ in what they take, not in what runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import TypeAlias

from tests.models.paper import Model
from tofu.errors import TofuError
from tofu.mxnet.planning import plan_task
from tofu.planning.settings import Settings
from tofu.program import PlannedProgram
from tofu.simulation.simulate import emit_one_device, measure_one_device, measure_partition

STATES = 1  # the paper counts three times the weights: themselves, gradients and a history
DEVICES = 8

Plan: TypeAlias = "tuple[PlannedProgram, tuple[int, ...]] | TofuError"
Build = Callable[[int], Model]  # a model of a batch size


class Programs:
    """What runs of a model that `build` makes for a batch."""

    def __init__(self, model: str, build: Build) -> None:
        self.model = model
        self.one_device: Callable[[int], tuple[PlannedProgram, int]] = cache(
            lambda batch: _emit_one_device(build(batch))
        )
        self.partition: Callable[[int, str], Plan] = cache(lambda batch, algorithm: _plan(build(batch), algorithm))

    def measure_by(self, measure: Callable[[PlannedProgram], Sequence[int]]) -> Programs:
        """The same programs, with the bytes that each worker needs by another measure."""
        return self._change(lambda program, _: (program, tuple(measure(program))))

    def emit_by(self, emit: Callable[[PlannedProgram], PlannedProgram]) -> Programs:
        """Other programs for the same plans, with the bytes of these."""
        return self._change(lambda program, needed: (emit(program), needed))

    def _change(
        self, change: Callable[[PlannedProgram, tuple[int, ...]], tuple[PlannedProgram, tuple[int, ...]]]
    ) -> Programs:
        other = copy(self)

        def emit_one_device(batch: int) -> tuple[PlannedProgram, int]:
            program, needed = self.one_device(batch)
            program, changed = change(program, (needed,))
            return program, max(changed)

        def plan(batch: int, algorithm: str) -> Plan:
            planned = self.partition(batch, algorithm)
            return planned if isinstance(planned, TofuError) else change(*planned)

        other.one_device, other.partition = cache(emit_one_device), cache(plan)
        return other


def _emit_one_device(model: Model) -> tuple[PlannedProgram, int]:
    """The program of a single device, and the bytes that it needs."""
    task = model.read(Settings(workers=2, cache=False))
    return emit_one_device(task), measure_one_device(task, STATES)


def _plan(model: Model, algorithm: str) -> Plan:
    """The program of an algorithm's plan and the bytes that each worker needs, or why there is none."""
    try:
        partition = plan_task(model.read(Settings(workers=DEVICES, algorithm=algorithm, cache=False)))
    except TofuError as error:
        return error
    return partition.program, measure_partition(partition, STATES)
