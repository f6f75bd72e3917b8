"""The command line: plans from shapes alone, and what the operator descriptions cover.

Plain functions of `tofu.partition` and `tofu.report` behind click; an error that the user can mend is one message and
exit code 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from tofu import __version__
from tofu.command_line.arguments import read_optimizer
from tofu.command_line.models import verify_model
from tofu.command_line.operators import ops, verify
from tofu.command_line.options import Request, spell_as_options, takes_request
from tofu.errors import TofuError
from tofu.host.writing import write_atomically
from tofu.mxnet.frontier import describe_point, most_bytes, trace_frontier
from tofu.mxnet.memory.optimizer_states import OptimizerStates
from tofu.mxnet.runtime.interconnect import Interconnect, measure_interconnect, measure_with_cupy
from tofu.mxnet.runtime.report_memory import report_one_device, report_workers
from tofu.pipeline import observe_by_environment
from tofu.planning.fitting import explain_none, find_fitting, format_limit, read_bytes
from tofu.planning.progress import track_searches
from tofu.report.memory import MemoryReport, print_report
from tofu.report.memory_fit import describe_fewest, describe_fit
from tofu.report.memory_plot import plot_memory
from tofu.report.picture import check_picture
from tofu.report.plan_page import render_page
from tofu.report.plan_table import alternatives_table, make_console, print_partition, timings_table

OUTPUT = click.Path(dir_okay=False, writable=True, path_type=Path)


class _Commands(click.Group):
    """Commands whose TofuErrors are shown as a message, without a traceback."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except TofuError as error:
            raise click.ClickException(spell_as_options(str(error))) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tofu")
def main() -> None:
    """Tofu trains a model that was written for one device on several.

    These commands look at models and operators; nothing is trained. To train, add one line to your script:

    \b
        symbol = tofu.partition(symbol, ngpus=4)
    """  # noqa: D301  click reads the escape


@main.command()
@takes_request
@click.option("--inference", is_flag=True, help="Plan the forward graph alone.")
@click.option(
    "--rows", type=click.IntRange(0), default=60, show_default=True, help="Longest table of layers; 0 shows all."
)
@click.option(
    "--why",
    multiple=True,
    metavar="LAYER",
    help="Say what the plan would move if LAYER were split along each of its axes; may be given several times.",
)
@click.option(
    "--report",
    "page",
    type=OUTPUT,
    help="Write a page for a browser: what is cut how, what moves, and why not otherwise: plan.html.",
)
@click.option("--json", "json_path", type=OUTPUT, help="Write the plan to this file.")
@click.option("--timings", is_flag=True, help="Say how long each pass took.")
def plan(
    request: Request,
    inference: bool,
    rows: int,
    why: Sequence[str],
    page: Path | None,
    json_path: Path | None,
    timings: bool,
) -> None:
    """Plan MODEL, a symbol saved by MXNet: how each layer is split, what moves, what each worker holds.

    No parameters are needed and no memory of the model is allocated: shapes are enough.

    \b
    Examples
        python -m tofu plan resnet-symbol.json --shape data:64,3,224,224
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --hint fc1_weight=0 --hint conv2=co
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 6 --hint conv1=b,co --json plan.json
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --why conv2 --report plan.html

    The file written by --json is what tofu.partition(symbol, plan="plan.json") applies, and --plan of these commands.
    TOFU_PRINT=lowered,program prints what these passes made; --timings names all passes.
    """  # noqa: D301  click reads the escape
    _check_folder("--json", json_path)
    _check_folder("--report", page)
    settings = replace(request.settings, for_training=not inference)
    observe = observe_by_environment()
    partition = replace(request, settings=settings).compile(observe)
    if json_path is not None:
        write_atomically(str(json_path), partition.plan.to_json() + "\n")
    console = make_console()
    print_partition(console, partition, rows or None)
    if timings:
        console.print()
        console.print(timings_table(observe.seconds))
    for layer in why:
        console.print()
        console.print(alternatives_table(partition, layer))
    if page is not None:
        write_atomically(str(page), render_page(partition, request.name, track_searches))
        console.print(f"\nThe page is in {page}.")
    if json_path is not None:
        console.print(f"\nThe plan is in {json_path}.")


def _check_folder(option: str, path: Path | None) -> None:
    """Raise TofuError where a file cannot be written, before anything is searched."""
    if path is not None and not path.absolute().parent.is_dir():
        raise TofuError(f"{option} {path}: there is no folder {path.absolute().parent}. Make it first.")


def _check_plot(path: Path | None) -> None:
    _check_folder("--plot", path)
    if path is not None:
        check_picture(path)


@main.command()
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


@main.command()
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
    _check_folder("--csv", csv_path)
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


main.add_command(ops)
main.add_command(verify)
main.add_command(verify_model)


@main.command()
@click.option(
    "--save",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("topology.json"),
    show_default=True,
    help="Where the levels are written.",
)
def topology(path: Path) -> None:
    """Measure the bandwidth between all pairs of GPUs, and write the levels that topology= takes.

    Needs two GPUs or more, and CuPy. The file lists the GPUs in the order in which the workers should use them.

    \b
    Examples
        python -m tofu topology
        python -m tofu plan resnet-symbol.json --shape data:64,3,224,224 --topology topology.json
    """  # noqa: D301  click reads the escape
    count, measure = measure_with_cupy()
    found = measure_interconnect(count, measure)
    console = make_console()
    console.print(_pair_table(found))
    for parts, rate in found.levels:
        console.print(f"a level of {parts} parts: {rate / 1e9:.1f} GB/s, all workers together")
    write_atomically(str(path), found.to_json())
    contexts = ", ".join(f"mx.gpu({device})" for device in found.devices)
    click.echo(f'\ntofu.partition(symbol, contexts=[{contexts}], topology="{path}")')


def _pair_table(found: Interconnect) -> Table:
    table = Table(
        "GB/s", *(f"gpu({device})" for device in found.devices), header_style="bold", box=None, pad_edge=False
    )
    for device, row in zip(found.devices, found.pairs, strict=True):
        table.add_row(f"gpu({device})", *(f"{rate / 1e9:.1f}" if rate else "-" for rate in row))
    return table
