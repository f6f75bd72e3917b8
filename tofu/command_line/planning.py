"""`python -m tofu plan` and `memory`: plans and memory of a model, an MXNet symbol or a JAX step. Needs no devices."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import click

from tofu.command_line.arguments import read_optimizer
from tofu.command_line.plan_output import SHOWN, show_plan
from tofu.command_line.planning_options import OUTPUT, check_plot, takes
from tofu.command_line.requests import ModelRequest, takes_model
from tofu.engines import MXNET
from tofu.errors import TofuError
from tofu.plan import format_bytes
from tofu.planning.fitting import explain_none, find_fitting
from tofu.report.console import make_console
from tofu.report.memory import MemoryComparison, print_report
from tofu.sizes import read_bytes

LEAST_DEVICE_BYTES = 1 << 20  # less is taken for a number without its unit


@click.command()
@takes_model()
@click.option("--inference", is_flag=True, help="MXNet: plan only the forward graph.")
@takes(SHOWN)
@click.option("--lines", is_flag=True, help="JAX: show each layer's line of the program.")
def plan(request: Any, inference: bool, **shown: Any) -> None:
    """Plan how MODEL is split over several devices.

    Prints the split of each layer, the bytes that it moves, and the memory of each worker.

    MODEL is a symbol saved by MXNet, or FILE.py:STEP, a training step for JAX. STEP is a function of (state,
    batch), or of other trees of arrays, with gradients and optimizer inside. Its first result is the state of the
    next step. A function example_args() in the same file returns its arguments: arrays, or jax.ShapeDtypeStructs
    from jax.eval_shape.

    Shapes are enough: no parameters are read, and no memory for the model is allocated.

    \b
    Examples:
        python -m tofu plan resnet-symbol.json --shape data:64,3,224,224
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --hint fc1_weight=0 --hint conv2=co
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --why conv2 --report plan.html
        python -m tofu plan train.py:step --workers 8 --save plan.json
        python -m tofu plan train.py --args tiny_args --hint params/w1=0 --why "jvp()/dot_general"

    tofu.partition(..., plan="plan.json") and --plan apply the file of --save. TOFU_PRINT=lowered,program prints the
    values of these passes; --timings lists all passes.
    """  # noqa: D301  click reads the escape
    asked = replace(request, settings=replace(request.settings, for_training=not inference))
    show_plan(request.name, asked.compile, **shown)


@click.command()
@takes_model()
@click.option(
    "--device-memory",
    metavar="SIZE",
    help="Memory of a device, such as 12GB or 16GiB. Shows whether the step fits and, if not, the workers that it needs.",
)
@click.option(
    "--optimizer",
    default="sgd,momentum=0.9",
    show_default=True,
    metavar="NAME[,PARAMETER=VALUE...]",
    help="MXNet: optimizer whose states are counted, or none.",
)
@click.option(
    "--plot", "memory_plot", type=OUTPUT, help="MXNet: draw memory in use over a step to this file (.png, .svg)."
)
def memory(request: ModelRequest, device_memory: str | None, optimizer: str, memory_plot: Path | None) -> None:
    """Show the memory of a training step of MODEL.

    Prints the memory of one device and of every worker. Shapes are enough: no parameters are read, and no memory
    for the model is allocated. For an MXNet symbol, sizes are exact to the byte, except the estimated workspace of
    convolutions. For a JAX step, arguments and results are exact, and temporaries are predicted. --workers 1 shows
    one device only.

    \b
    Examples:
        python -m tofu memory resnet-symbol.json --shape data:64,3,224,224
        python -m tofu memory lm-symbol.json --shape data:32,512 --optimizer adam --plot memory.png
        python -m tofu memory train.py:step --workers 8 --donate 0 --device-memory 16GiB
    """  # noqa: D301  click reads the escape
    device_bytes = None if device_memory is None else _read_device_memory(device_memory)
    check_plot(memory_plot)
    states = read_optimizer(optimizer)
    report, console = request.report_memory(optimizer=states), make_console()
    print_report(console, report)
    if memory_plot is not None:
        MXNET.load("memory.plot").plot_memory(report, memory_plot)
        console.print(f"The plot is in {memory_plot}.")
    if device_bytes is None:
        return
    click.echo(report.describe_fit(device_bytes))
    if not report.fits(device_bytes):
        click.echo(_find_fewest(request, report, device_bytes, optimizer=states))


def _read_device_memory(text: str) -> int:
    """Return a size in bytes. Raises TofuError for a number without a unit that is too small to be one."""
    count = read_bytes(text, "--device-memory")
    if text.strip().isdecimal() and count < LEAST_DEVICE_BYTES:
        raise TofuError(
            f"--device-memory {text} is {count:,} bytes. Did you mean {count} GiB? Write --device-memory {count}GiB."
        )
    return count


def _find_fewest(request: ModelRequest, report: MemoryComparison, device_bytes: int, **options: Any) -> str:
    """Return the fewest workers that fit, starting where an even share does, or why there are none."""
    whole = report.columns[0][1]
    least = max(1, ceil(whole.total[1] / device_bytes))

    def make(workers: int) -> tuple[int, MemoryComparison]:
        return workers, request.over(workers).report_memory(**options)

    found = find_fitting(least, device_bytes, make, lambda made: made[1].largest.needed_bytes)
    if found is None:
        return explain_none(request.over(2).read().problem, device_bytes, least)
    workers, fitting = found
    needs = format_bytes(fitting.largest.needed_bytes)
    return (
        "One device is enough." if workers == 1 else f"{workers} workers are the fewest that fit: each needs {needs}."
    )
