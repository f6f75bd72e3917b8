"""`python -m tofu plan` and `memory`: what becomes of a model, an MXNet symbol or a step for JAX. No devices are needed."""

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
from tofu.plan import format_bytes
from tofu.planning.fitting import explain_none, find_fitting
from tofu.report.console import make_console
from tofu.report.memory import Report, print_report
from tofu.sizes import read_bytes


@click.command()
@takes_model()
@click.option("--inference", is_flag=True, help="MXNet: plan the forward graph alone.")
@takes(SHOWN)
@click.option("--lines", is_flag=True, help="JAX: show the line of the program that each layer is of.")
def plan(request: Any, inference: bool, **shown: Any) -> None:
    """Plan MODEL: how each layer is split, what moves, what each worker holds.

    MODEL is a symbol that MXNet saved, or FILE.py:STEP, a training step for JAX. STEP is a function of (state, batch), or of other trees of
    arrays, with gradients and optimizer inside; what it returns first is the state of the next step. example_args() in the same file
    returns arguments for it: arrays, or jax.ShapeDtypeStructs, as jax.eval_shape makes them of a function that would make arrays.

    No parameters are needed and no memory of the model is allocated: shapes are enough.

    \b
    Examples
        python -m tofu plan resnet-symbol.json --shape data:64,3,224,224
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --hint fc1_weight=0 --hint conv2=co
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --why conv2 --report plan.html
        python -m tofu plan train.py:step --workers 8 --save plan.json
        python -m tofu plan train.py --args tiny_args --hint params/w1=0 --why "jvp()/dot_general"

    The file written by --save is what tofu.partition(..., plan="plan.json") applies, and --plan of these commands.
    TOFU_PRINT=lowered,program prints what these passes made; --timings names all passes.
    """  # noqa: D301  click reads the escape
    asked = replace(request, settings=replace(request.settings, for_training=not inference))
    show_plan(request.name, asked.compile, **shown)


@click.command()
@takes_model()
@click.option(
    "--device-memory",
    metavar="SIZE",
    help="What a device has, as 12GB or 16GiB: says whether the step fits and, if not, how many workers it takes.",
)
@click.option(
    "--optimizer",
    default="sgd,momentum=0.9",
    show_default=True,
    metavar="NAME[,PARAMETER=VALUE...]",
    help="MXNet: the optimizer whose states are counted; none for no states.",
)
@click.option("--plot", "memory_plot", type=OUTPUT, help="MXNet: draw what is in use over a step: m.png.")
def memory(request: ModelRequest, device_memory: str | None, optimizer: str, memory_plot: Path | None) -> None:
    """Show what a training step of MODEL needs on one device and on every worker.

    Everything comes from shapes; neither parameters nor memory of the model are needed. Of an MXNet symbol, sizes are those that binding
    allocates, to the byte; only the workspace of convolutions is an estimate. --workers 1 shows one device alone. Of a step for JAX,
    arguments and results are exact, and temporaries are predicted.

    \b
    Examples
        python -m tofu memory resnet-symbol.json --shape data:64,3,224,224
        python -m tofu memory lm-symbol.json --shape data:32,512 --optimizer adam --plot memory.png
        python -m tofu memory train.py:step --workers 8 --donate 0 --device-memory 16GiB
    """  # noqa: D301  click reads the escape
    device_bytes = None if device_memory is None else read_bytes(device_memory, "--device-memory")
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


def _find_fewest(request: ModelRequest, report: Report, device_bytes: int, **options: Any) -> str:
    """Return the fewest workers that fit, from those whose share of one device's bytes does; or why there are none."""
    whole = report.columns[0][1]
    least = max(1, ceil(whole.total[1] / device_bytes))

    def make(workers: int) -> tuple[int, Report]:
        return workers, request.over(workers).report_memory(**options)

    found = find_fitting(least, device_bytes, make, lambda made: made[1].largest.needed_bytes)
    if found is None:
        return explain_none(request.over(2).read().problem, device_bytes, least)
    workers, fitting = found
    needs = format_bytes(fitting.largest.needed_bytes)
    return (
        "One device is enough." if workers == 1 else f"{workers} workers are the fewest that fit: each needs {needs}."
    )
