"""`python -m tofu plan`, `memory` and `frontier`: what becomes of a symbol that MXNet saved, from shapes alone."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import click

from tofu.command_line.arguments import read_optimizer
from tofu.command_line.options import Request, takes_request
from tofu.command_line.plan_output import SHOWN, show_plan
from tofu.command_line.planning_options import OUTPUT, check_folder, takes
from tofu.host.writing import write_atomically
from tofu.mxnet.frontier import describe_point, most_bytes, trace_frontier
from tofu.mxnet.memory.optimizer_states import OptimizerStates
from tofu.mxnet.runtime.report_memory import report_one_device, report_workers
from tofu.planning.fitting import explain_none, find_fitting
from tofu.report.console import make_console
from tofu.report.memory import MemoryReport, print_report
from tofu.report.memory_fit import describe_fewest, describe_fit
from tofu.report.memory_plot import plot_memory
from tofu.report.picture import check_picture
from tofu.sizes import format_limit, read_bytes


@click.command()
@takes_request
@click.option("--inference", is_flag=True, help="Plan the forward graph alone.")
@takes(SHOWN)
def plan(request: Request, inference: bool, **shown: Any) -> None:
    """Plan MODEL, a symbol saved by MXNet: how each layer is split, what moves, what each worker holds.

    No parameters are needed and no memory of the model is allocated: shapes are enough.

    \b
    Examples
        python -m tofu plan resnet-symbol.json --shape data:64,3,224,224
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --hint fc1_weight=0 --hint conv2=co
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 6 --hint conv1=b,co --save plan.json
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --why conv2 --report plan.html

    The file written by --save is what tofu.partition(symbol, plan="plan.json") applies, and --plan of these commands.
    TOFU_PRINT=lowered,program prints what these passes made; --timings names all passes.
    """  # noqa: D301  click reads the escape
    asked = replace(request, settings=replace(request.settings, for_training=not inference))
    show_plan(request.name, asked.compile, **shown)


def _check_plot(path: Path | None) -> None:
    check_folder("--plot", path)
    if path is not None:
        check_picture(path)


@click.command()
@takes_request
@click.option(
    "--device-memory",
    metavar="SIZE",
    help="What a device has, as 12GB or 16GiB: says whether the step fits and, where not, how many workers it takes.",
)
@click.option(
    "--optimizer",
    default="sgd,momentum=0.9",
    show_default=True,
    metavar="NAME[,PARAMETER=VALUE...]",
    help="The MXNet optimizer whose states are counted; none for no states.",
)
@click.option("--plot", type=OUTPUT, help="Draw what is in use over a step: m.png.")
def memory(request: Request, device_memory: str | None, optimizer: str, plot: Path | None) -> None:
    """Show what a training step of MODEL needs on one device and on every worker: parameters, gradients, activations and so on.

    Everything comes from shapes; neither parameters nor memory of the model are needed. Sizes are those that binding allocates, to
    the byte; only the workspace of convolutions is an estimate. --workers 1 shows one device alone.

    \b
    Examples
        python -m tofu memory resnet-symbol.json --shape data:64,3,224,224
        python -m tofu memory resnet-symbol.json --shape data:64,3,224,224 --workers 4 --device-memory 12GB
        python -m tofu memory lm-symbol.json --shape data:32,512 --optimizer adam --plot memory.png
    """  # noqa: D301  click reads the escape
    _check_plot(plot)
    states = OptimizerStates(*read_optimizer(optimizer))
    device_bytes = None if device_memory is None else read_bytes(device_memory, "--device-memory")
    report = _report_memory(request, states)
    console = make_console()
    print_report(console, report)
    if plot is not None:
        plot_memory(report, plot)
        console.print(f"The plot is in {plot}.")
    if device_bytes is not None:
        click.echo(describe_fit(report, device_bytes))
        if not report.fits(device_bytes):
            click.echo(_advise(request, report, device_bytes, states))


def _report_memory(request: Request, states: OptimizerStates) -> MemoryReport:
    if request.settings.workers == 1:
        return report_one_device(request.symbol, request.shapes, states)
    return report_workers(request.compile(), states)


def _advise(request: Request, report: MemoryReport, device_bytes: int, states: OptimizerStates) -> str:
    """The fewest workers that fit, from those whose share of one device's bytes does; or why there are none."""
    least = max(1, ceil(report.one_device.planned_bytes / device_bytes))
    fitting = find_fitting(
        least,
        device_bytes,
        lambda workers: _report_memory(request.over(workers), states),
        lambda made: made.largest.needed_bytes,
    )
    if fitting is not None:
        return describe_fewest(fitting)
    return explain_none(request.over(2).read().problem, device_bytes, least)


@click.command()
@takes_request
@click.option("--plot", type=OUTPUT, help="Draw it into this file (.png, .svg).")
@click.option("--csv", "csv_path", type=OUTPUT, help="Write it to this file.")
def frontier(request: Request, plot: Path | None, csv_path: Path | None) -> None:
    """What MODEL moves per training step against what each worker holds: from everything but small tensors split
    to data parallelism.

    \b
    Examples
        python -m tofu frontier resnet-symbol.json --shape data:64,3,224,224 --workers 8 --plot frontier.png
        python -m tofu frontier resnet-symbol.json --shape data:64,3,224,224 --workers 8 --memory-limit 12GB

    tofu.partition(..., memory_limit="12GB") takes the plan that fits; --memory-limit says which row that is. --plan adds a plan to
    compare with.
    """  # noqa: D301  click reads the escape
    _check_plot(plot)
    check_folder("--csv", csv_path)
    settings = request.settings
    free = replace(settings, plan=None, memory_limit=None, cache=False)
    found = trace_frontier(request.symbol, request.shapes, free)
    click.echo(str(found))
    if settings.plan is not None:
        click.echo(f"--plan: {describe_point(request.compile().plan)}")
    if settings.memory_limit is not None:
        best = found.best_within(settings.memory_limit)
        click.echo(f"within {format_limit(settings.memory_limit)}: row {found.points.index(best) + 1}")
    if csv_path is not None:
        rows = [f"{most_bytes(plan)},{plan.communication_bytes}" for plan in found.points]
        write_atomically(str(csv_path), "\n".join(["memory per worker,bytes per step", *rows, ""]))
    if plot is not None:
        found.draw(plot)
        click.echo(f"The picture is in {plot}.")
