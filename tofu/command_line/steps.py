"""Training steps for JAX, on the command line: FILE.py:STEP. No devices are needed. `python -m tofu compare` is for them.

JAX is loaded when a command runs, by the name of what knows it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import click

from tofu.command_line.requests import STEP, load_engine, takes_model
from tofu.pipeline import Observer, Partition
from tofu.plan import format_bytes
from tofu.planning.fitting import explain_none, find_fitting
from tofu.planning.progress import stage_progress
from tofu.planning.settings import Settings
from tofu.report.console import make_console
from tofu.search import Problem
from tofu.sizes import format_limit

VIRTUAL_DEVICES = "--xla_force_host_platform_device_count"
MOST_VIRTUAL_DEVICES = 512


@dataclass(frozen=True)
class StepRequest:
    """A step in a file (`tofu.jax.step_files.StepFile`), as it was read, and how its user wants it planned, by an `Engine`."""

    file: Any
    source: Any
    settings: Settings
    engine: Any

    @property
    def name(self) -> str:
        """The name of the file, and of the step in it."""
        return str(self.file.name)

    def compile(self, observe: Observer | None = None) -> Partition:
        """Return the partition; `observe` is told of every pass."""
        made: Partition = _load("planning").plan_step(self.source, self.settings, observe, self.engine)
        return made

    def over(self, workers: int) -> StepRequest:
        """Return the request for another number of workers, without what is of one number alone: a plan, levels, hints for single steps."""
        return replace(self, settings=self.settings.over(workers))

    def show_memory(self, device_bytes: int | None, **_: Any) -> None:
        """Print what a step needs on one device and on every worker: arguments and results exactly, temporaries as they are predicted."""
        accounts = _load("memory")
        partition = self.compile()
        found = accounts.predict_memory(partition)
        accounts.print_memory(make_console(), found)
        if device_bytes is None:
            return
        for device in (found.one_device, found.worker):
            does = "fits" if device.needed_bytes <= device_bytes else "does not fit"
            needs = f"{device.name} needs {format_bytes(device.needed_bytes)}"
            click.echo(f"{needs}: it {does} into {format_limit(device_bytes)}.")
        if not found.fits(device_bytes):
            click.echo(_advise(partition.searched, found, device_bytes, lambda workers: self.over(workers).compile()))


def _load(module: str) -> Any:
    return load_engine(f"tofu.jax.{module}")


def read_request(
    model: str,
    workers: int | None,
    planning: Mapping[str, Any],
    use: Callable[[StepRequest], None],
    arguments: str,
    uneven: str | None = None,
    donate: Sequence[int] = (),
    needs_devices: bool = False,
    **_: Any,
) -> None:
    """Read a step and call `use` with the request. Raises TofuError if the step or its arguments cannot be read."""
    planner, files, reading = map(_load, ("planning", "step_files", "frontend.read_step"))
    settings = planner.read_settings(workers, {name: value for name, value in planning.items() if name != "unroll"})
    if needs_devices:
        _ask_for_devices(settings.workers)
    file = files.read_step_file(model, arguments)
    engine = _load("engine").find_engine(uneven)
    with files.telling_where(file.path, f"Tracing {file.name.partition(':')[2]} with {arguments}"):
        source = reading.read_step(file.step, file.arguments)
    use(StepRequest(file, reading.donate(source, donate) if donate else source, settings, engine))


def _ask_for_devices(count: int) -> None:
    """Has JAX, which has not looked at its devices yet, make so many of a CPU, for what is compiled for them."""
    flags = os.environ.get("XLA_FLAGS", "")
    if VIRTUAL_DEVICES not in flags and count <= MOST_VIRTUAL_DEVICES:
        os.environ["XLA_FLAGS"] = f"{flags} {VIRTUAL_DEVICES}={count}".strip()


@click.command()
@takes_model(only=STEP, stores=False, needs_devices=True)
@click.option(
    "--batch",
    type=click.IntRange(1),
    metavar="N",
    help="The extent of the batch, which the peers split; by default what most arguments after the first begin with.",
)
def compare(request: StepRequest, batch: int | None) -> None:
    """Compare plans of a step with data parallelism and FSDP (ZeRO-3): bytes that move, and bytes that each device holds.

    Each is compiled by XLA, for devices of the CPU where there are too few others, and nothing is run. "Tofu within" a peer is the best
    plan that holds no more than that peer does. A plan given by --plan stands beside those that are searched.

    \b
    Examples
        python -m tofu compare train.py:step --workers 8
        python -m tofu compare train.py:step --workers 4 --batch 64
    """  # noqa: D301  click reads the escape
    comparing, peers = map(_load, ("compare.comparison", "compare.peers"))
    arguments = peers.split_arguments(request.file.arguments, batch)
    devices = comparing.find_devices(request.settings.workers)
    rows = []
    with stage_progress() as report:
        report("compiling the step for one device")
        for row in comparing.Comparison(request.file.step, request.source, arguments, request.settings, devices).run():
            rows.append(row)
            report(f"compiling plans, {len(rows)} so far")
    comparing.print_rows(make_console(), f"{request.file.name} on {len(devices)} devices", rows)


def _advise(problem: Problem, found: Any, device_bytes: int, make: Callable[[int], Partition]) -> str:
    """The fewest workers that fit, from those whose share of one device's bytes does; or why there are none."""
    accounts = _load("memory")
    least = max(2, ceil(found.one_device.needed_bytes / device_bytes))
    fitting = find_fitting(
        least,
        device_bytes,
        lambda workers: accounts.predict_memory(make(workers)),
        lambda made: made.worker.needed_bytes,
    )
    if fitting is None:
        return explain_none(problem, device_bytes, least)
    return f"{fitting.workers} workers are the fewest that fit: each needs {format_bytes(fitting.worker.needed_bytes)}."
