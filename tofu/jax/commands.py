"""Run the commands of `python -m tofu` on a JAX training step in a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from tofu.compare.agreement import Agreement
from tofu.engine import Engine, Source
from tofu.jax.compare.comparison import PlanComparison, find_devices, print_rows
from tofu.jax.compare.peers import split_arguments
from tofu.jax.engine import make_engine
from tofu.jax.frontend.read_step import donate, read_step
from tofu.jax.memory import StepMemory, predict_memory
from tofu.jax.planning import analyse, plan_step, read_settings
from tofu.jax.simulation import advise_source
from tofu.jax.step_files import StepFile, locate_errors, read_step_file
from tofu.jax.verify.step import verify_step
from tofu.pipeline import Observer, Partition, Task
from tofu.planning.progress import show_progress
from tofu.planning.settings import Settings
from tofu.simulation.advise import Advice
from tofu.simulation.machine import Machine

VIRTUAL_DEVICES = "--xla_force_host_platform_device_count"
MOST_VIRTUAL_DEVICES = 512


@dataclass(frozen=True)
class StepRequest:
    """A training step from a file, with the options for planning it."""

    file: StepFile
    source: Source
    settings: Settings
    engine: Engine

    states = 0
    """The number of arrays per weight that an optimizer stores outside of the step. JAX steps need none."""

    @property
    def name(self) -> str:
        """The name of the step, such as "train.py:step"."""
        return self.file.name

    def read(self) -> Task:
        """Find all ways to split each operator of the step."""
        return analyse(self.source, self.settings, Observer(), self.engine)

    def compile(self, observe: Observer | None = None) -> Partition:
        """Return a plan for the step, with its graph. Call `observe` after each stage of planning."""
        return plan_step(self.source, self.settings, observe, self.engine)

    def over(self, workers: int) -> StepRequest:
        """Return a copy for another number of workers."""
        return replace(self, settings=self.settings.over(workers))

    def advise(self, machine: Machine, counts: Sequence[int], states: int, report: Callable[[str], None]) -> Advice:
        """Simulate the step on each number of devices in `counts`, and recommend a number."""
        return advise_source(self.source, self.over(1).settings, machine, counts, engine=self.engine, report=report)

    def verify(self, dtype: str | None, seed: int, **_: Any) -> Agreement:
        """Run the step on one device and on all devices, and compare every result."""
        return verify_step(self.file.step, self.file.arguments, self.settings, self.engine, dtype, seed)

    def compare(self, batch: int | None, report: Callable[[str], None]) -> Callable[[Console], None]:
        """Compare Tofu's ways to split the step with data parallelism and fully sharded data parallelism (FSDP).

        Compile the step for each of them. Return a function that prints the comparison. `batch` is the size of the
        batch dimension, or None to guess it.
        """
        arguments = split_arguments(self.file.arguments, batch)
        devices = find_devices(self.settings.workers)
        rows = []
        report("compiling the step for one device")
        for row in PlanComparison(self.file.step, self.source, arguments, self.settings, devices).run():
            rows.append(row)
            report(f"compiling plans, {len(rows)} so far")
        title = f"{self.name} on {len(devices)} workers"
        return lambda console: print_rows(console, title, rows)

    def report_memory(self, **_: Any) -> StepMemory:
        """Predict the memory of the step. Only the bytes of temporary values are estimates."""
        partition = self.compile()
        with show_progress("predicting the memory"):
            return predict_memory(partition)


def read_request(
    model: str,
    workers: int | None,
    planning: Mapping[str, Any],
    use: Callable[[StepRequest], None],
    arguments: str,
    uneven: str | None = None,
    donated: Sequence[int] = (),
    needs_devices: bool = False,
    **_: Any,
) -> None:
    """Load a step from the file `model`, and pass it to `use`.

    `arguments` is the name of the example arguments in the file. Raise TofuError if the file lacks the arguments or the
    step.
    """
    settings = read_settings(workers, planning)
    if needs_devices:
        _request_virtual_devices(settings.workers)
    with show_progress("tracing the step"):
        file = read_step_file(model, arguments)
        engine = make_engine(uneven)
        with locate_errors(file.path, f"Tracing {file.name.partition(':')[2]} with {arguments}"):
            source = read_step(file.step, file.arguments)
    use(StepRequest(file, donate(source, donated or None), settings, engine))


def _request_virtual_devices(count: int) -> None:
    flags = os.environ.get("XLA_FLAGS", "")
    if VIRTUAL_DEVICES not in flags and count <= MOST_VIRTUAL_DEVICES:
        os.environ["XLA_FLAGS"] = f"{flags} {VIRTUAL_DEVICES}={count}".strip()
