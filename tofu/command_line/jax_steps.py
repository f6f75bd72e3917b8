"""`python -m tofu jax plan`, `memory` and `compare`: what becomes of a step that is written for JAX. No devices are needed.

JAX is loaded when a command runs, by the name of what knows it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from importlib import import_module
from math import ceil
from typing import Any

import click

from tofu.command_line.plan_output import SHOWN, show_plan
from tofu.command_line.planning_options import Decorator, make_planning, pop_planning, takes
from tofu.errors import TofuError
from tofu.pipeline import Observer, Partition
from tofu.plan import format_bytes
from tofu.planning.fitting import explain_none, find_fitting
from tofu.planning.progress import stage_progress
from tofu.planning.settings import Settings
from tofu.report.console import make_console
from tofu.search import Problem
from tofu.search.native import UNEVEN
from tofu.sizes import format_limit, read_bytes

VIRTUAL_DEVICES = "--xla_force_host_platform_device_count"
MOST_VIRTUAL_DEVICES = 512
SHARED: tuple[Decorator, ...] = (
    click.argument("step", metavar="FILE.py:STEP"),
    click.option(
        "--args",
        "arguments",
        default="example_args",
        show_default=True,
        metavar="NAME",
        help="What gives the step's example arguments: a function in FILE without parameters, or a tuple.",
    ),
    *make_planning(left_out=("unroll",)),  # of an operator of MXNet's: a scan stays a loop
)

TAKES_UNEVEN = click.option(
    "--uneven",
    type=click.Choice(UNEVEN),
    default="needed",
    show_default=True,
    help="Which arguments may lie in parts that overlap, where workers cannot share them equally: none, those that each worker would have "
    "all of else, or all.",
)

TAKES_DONATE = click.option(
    "--donate",
    multiple=True,
    type=click.IntRange(0),
    metavar="N",
    help="The step may write over its argument N, as donate_argnums= of tofu.jax.partition says; may be given several times.",
)


@dataclass(frozen=True)
class Request:
    """A step in a file (`tofu.jax.step_files.StepFile`), as it was read, and how its user wants it planned, by an `Engine`."""

    file: Any
    source: Any
    settings: Settings
    engine: Any

    def compile(self, observe: Observer | None = None) -> Partition:
        """Its partition."""
        made: Partition = load_jax("planning").plan_step(self.source, self.settings, observe, self.engine)
        return made

    def donate(self, arguments: Sequence[int]) -> Request:
        """Return the request for the step that may use the memory of these arguments."""
        return replace(self, source=load_jax("frontend.read_step").donate(self.source, arguments))

    def over(self, workers: int) -> Request:
        """The same for another number of workers, without what is of one number alone: a plan, levels, hints for single steps."""
        return replace(self, settings=self.settings.over(workers))


def load_jax(module: str) -> Any:
    """A module of the JAX side. Raises TofuError where JAX is not installed."""
    try:
        return import_module(f"tofu.jax.{module}")
    except ImportError as error:
        raise TofuError(str(error)) from error


def _takes_step(command: Callable[..., None], needs_devices: bool = False) -> Callable[..., None]:
    """Give a command the shared options; it is called with the `Request` that they make, and with its own options."""

    @wraps(command)
    def call(step: str, arguments: str, **given: Any) -> None:
        workers, options = pop_planning(given)
        planning, files, reading = map(load_jax, ("planning", "step_files", "frontend.read_step"))
        settings = planning.read_settings(workers, options)
        if needs_devices:
            _ask_for_devices(settings.workers)
        file = files.read_step_file(step, arguments)
        engine = load_jax("engine").find_engine(given.pop("uneven", None))
        with files.telling_where(file.path, f"Tracing {file.name.partition(':')[2]} with {arguments}"):
            source = reading.read_step(file.step, file.arguments)
        command(Request(file, source, settings, engine), **given)

    return takes(SHARED)(call)


def _ask_for_devices(count: int) -> None:
    """Has JAX, which has not looked at its devices yet, make so many of a CPU, for what is compiled for them."""
    flags = os.environ.get("XLA_FLAGS", "")
    if VIRTUAL_DEVICES not in flags and count <= MOST_VIRTUAL_DEVICES:
        os.environ["XLA_FLAGS"] = f"{flags} {VIRTUAL_DEVICES}={count}".strip()


@click.group()
def jax() -> None:
    """Plan steps that are written for JAX, without the devices that they will run on.

    STEP is a function in FILE.py of (state, batch), or of other trees of arrays, with gradients and optimizer inside; what it returns first
    is the state of the next step. Beside it stands example_args(), which returns arguments for it: arrays, or jax.ShapeDtypeStructs, as
    jax.eval_shape makes them of a function that would make arrays.

    \b
        def step(params, batch): ...
        def example_args():
            params = jax.eval_shape(init, jax.random.key(0))
            return params, jax.ShapeDtypeStruct((64, 512), "float32")
    """  # noqa: D301  click reads the escape


@jax.command()
@_takes_step
@TAKES_UNEVEN
@TAKES_DONATE
@takes(SHOWN)
@click.option("--lines", is_flag=True, help="Show the line of the program that each layer is of.")
def plan(request: Request, donate: Sequence[int], **shown: Any) -> None:
    """Plan a step: how each operator is split, what moves, what each device holds.

    \b
    Examples
        python -m tofu jax plan train.py:step --workers 8
        python -m tofu jax plan train.py:step --workers 4 --hint params/w1=0 --save plan.json
        python -m tofu jax plan train.py --args tiny_args --why "jvp()/dot_general" --report plan.html

    The file written by --save is what tofu.jax.partition(step, 8, args, plan="plan.json") applies, and --plan of these commands.
    """  # noqa: D301  click reads the escape
    show_plan(request.file.name, request.donate(donate).compile, **shown)


@jax.command()
@_takes_step
@TAKES_UNEVEN
@TAKES_DONATE
@click.option(
    "--device-memory",
    metavar="SIZE",
    help="What a device has, as 12GB or 16GiB: says whether the step fits and, where not, how many workers it takes.",
)
def memory(request: Request, donate: Sequence[int], device_memory: str | None) -> None:
    """Show what a step needs on one device and on every worker: arguments and results exactly, temporaries as they are predicted.

    \b
    Examples
        python -m tofu jax memory train.py:step --workers 8 --donate 0
        python -m tofu jax memory train.py:step --workers 8 --device-memory 16GiB
    """  # noqa: D301  click reads the escape
    device_bytes = None if device_memory is None else read_bytes(device_memory, "--device-memory")
    accounts, request = load_jax("memory"), request.donate(donate)
    partition = request.compile()
    found = accounts.predict_memory(partition)
    accounts.print_memory(make_console(), found)
    if device_bytes is None:
        return
    for device in (found.one_device, found.worker):
        does = "fits" if device.needed_bytes <= device_bytes else "does not fit"
        needs = f"{device.name} needs {format_bytes(device.needed_bytes)}"
        click.echo(f"{needs}: it {does} into {format_limit(device_bytes)}.")
    if not found.fits(device_bytes):
        click.echo(_advise(partition.searched, found, device_bytes, lambda workers: request.over(workers).compile()))


@jax.command()
@partial(_takes_step, needs_devices=True)
@click.option(
    "--batch",
    type=click.IntRange(1),
    metavar="N",
    help="The extent of the batch, which the peers split; by default what most arguments after the first begin with.",
)
def compare(request: Request, batch: int | None) -> None:
    """Compare plans of a step with data parallelism and FSDP (ZeRO-3): bytes that move, and bytes that each device holds.

    Each is compiled by XLA, for devices of the CPU where there are too few others, and nothing is run. "Tofu within" a peer is the best
    plan that holds no more than that peer does. A plan given by --plan stands beside those that are searched.

    \b
    Examples
        python -m tofu jax compare train.py:step --workers 8
        python -m tofu jax compare train.py:step --workers 4 --batch 64
    """  # noqa: D301  click reads the escape
    comparing, peers = map(load_jax, ("compare.comparison", "compare.peers"))
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
    accounts = load_jax("memory")
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
