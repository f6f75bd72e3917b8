"""The command line: plans from shapes alone, and what the operator descriptions cover.

Plain functions of `tofu.partition` and `tofu.report` behind click; an error that the user can mend is one message and
exit code 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import mxnet as mx
from rich.table import Table

from tofu.cli_arguments import (
    read_bandwidths,
    read_hints,
    read_optimizer,
    read_shapes,
)
from tofu.errors import TofuError
from tofu.frontier import most_bytes, read_trained, trace_frontier
from tofu.graph.mxnet import check_names, read_training
from tofu.graph.refusals import refuse_unpartitionable
from tofu.memory_limit import read_bytes
from tofu.operator_commands import ops, verify
from tofu.partition import Partition, compile_partition
from tofu.planning import Settings
from tofu.report.memory import MemoryReport
from tofu.report.memory_plot import plot_memory
from tofu.report.memory_table import describe_fit, describe_remedy, print_report
from tofu.report.plan_table import make_console, print_partition
from tofu.runtime.arguments import MOST_WORKERS
from tofu.runtime.files import write_atomically
from tofu.runtime.interconnect import Interconnect, measure_interconnect, measure_with_cupy
from tofu.runtime.memory import find_fitting_workers, memory_report
from tofu.search.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, SEARCHES
from tofu.search.topology import Topology


class _Commands(click.Group):
    """Commands whose TofuErrors are shown as a message, without a traceback."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except TofuError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tofu")
def main() -> None:
    """Tofu trains a model that was written for one device on several.

    These commands look at models and operators; nothing is trained. To train, add one line to your script:

    \b
        symbol = tofu.partition(symbol, ngpus=4)
    """  # noqa: D301  click reads the escape


@main.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--shape", "shapes", multiple=True, required=True, metavar="NAME:D0,D1,...", help="Shape of an input.")
@click.option("--workers", default=8, show_default=True, help="Number of devices.")
@click.option(
    "--hint",
    "hints",
    multiple=True,
    metavar="NAME=CHOICE",
    help="Pin a part of the plan: a tensor's dimension or an operator's axis, or one for each step, separated by "
    "commas; '-' is replicated, '...' is free.",
)
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default=DEFAULT_ALGORITHM, show_default=True)
@click.option(
    "--topology",
    metavar="BANDWIDTHS",
    help="Bytes per second of each level of the interconnect, from the top, separated by commas, or a JSON file with the levels.",
)
@click.option("--memory-limit", metavar="BYTES", help='For each worker, as a number or like "12GB".')
@click.option("--inference", is_flag=True, help="Plan the forward graph alone.")
@click.option(
    "--undescribed",
    type=click.Choice(["error", "replicate"]),
    default="error",
    show_default=True,
    help="What to do about operators without a description: name them, or let every worker compute them whole.",
)
@click.option("--rows", default=60, show_default=True, help="Longest table of layers; 0 shows all.")
@click.option(
    "--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan to this file."
)
def plan(
    model: Path,
    shapes: tuple[str, ...],
    workers: int,
    hints: tuple[str, ...],
    algorithm: str,
    topology: str | None,
    memory_limit: str | None,
    inference: bool,
    undescribed: str,
    rows: int,
    json_path: Path | None,
) -> None:
    """Plan MODEL, a symbol saved by MXNet: how each layer is split, what moves, what each worker holds.

    No parameters are needed and no memory of the model is allocated: shapes are enough.

    \b
    Examples
        python -m tofu plan resnet-symbol.json --shape data:64,3,224,224
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --hint fc1_weight=0 --hint conv2=co
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 6 --hint conv1=b,co --json plan.json

    The file written by --json is what tofu.partition(symbol, plan=open("plan.json").read()) applies.
    """  # noqa: D301  click reads the escape
    if json_path is not None and not json_path.absolute().parent.is_dir():
        raise TofuError(f"--json {json_path}: there is no folder {json_path.absolute().parent}. Make it first.")
    partition = plan_file(
        model,
        read_shapes(shapes),
        workers,
        read_hints(hints),
        for_training=not inference,
        undescribed=undescribed,
        algorithm=algorithm,
        topology=read_bandwidths(topology),
        memory_limit=None if memory_limit is None else read_bytes(memory_limit, "--memory-limit"),
    )
    console = make_console()
    print_partition(console, partition, rows or None)
    if json_path is not None:
        write_atomically(str(json_path), partition.plan.to_json() + "\n")
        console.print(f"\nThe plan is in {json_path}.")


@main.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--shape", "shapes", multiple=True, required=True, metavar="NAME:D0,D1,...", help="Shape of an input.")
@click.option("--workers", default=8, show_default=True, help="Number of devices; 1 shows one device alone.")
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
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default=DEFAULT_ALGORITHM, show_default=True)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw what is in use over a step: m.png.")
def memory(
    model: Path,
    shapes: tuple[str, ...],
    workers: int,
    device_memory: str | None,
    optimizer: str,
    algorithm: str,
    plot: Path | None,
) -> None:
    """Show what a training step of MODEL needs on one device and on every worker: parameters, gradients, activations and so on.

    Everything comes from shapes; neither parameters nor memory of the model are needed. Sizes are those that binding allocates, to
    the byte; only the workspace of convolutions is an estimate.

    \b
    Examples
        python -m tofu memory resnet-symbol.json --shape data:64,3,224,224
        python -m tofu memory resnet-symbol.json --shape data:64,3,224,224 --workers 4 --device-memory 12GB
        python -m tofu memory lm-symbol.json --shape data:32,512 --optimizer adam --plot memory.png
    """  # noqa: D301  click reads the escape
    given = read_shapes(shapes)
    symbol = _load_symbol(model)
    name, parameters = read_optimizer(optimizer)
    device_bytes = None if device_memory is None else read_bytes(device_memory, "--device-memory")

    def report_of(number: int) -> MemoryReport:
        options = {"algorithm": algorithm}
        return memory_report(symbol, number, optimizer=name, optimizer_params=parameters, options=options, **given)

    report = report_of(workers)
    console = make_console()
    print_report(console, report)
    if plot is not None:
        plot_memory(report, plot)
        console.print(f"The plot is in {plot}.")
    if device_bytes is not None:
        console.print(describe_fit(report, device_bytes))
        if not report.fits(device_bytes):
            console.print(describe_remedy(find_fitting_workers(report, device_bytes, report_of), device_bytes))


def plan_file(
    model: Path,
    shapes: Mapping[str, tuple[int, ...]],
    workers: int,
    hints: Mapping[str, Any],
    *,
    for_training: bool,
    undescribed: str = "error",
    algorithm: str = DEFAULT_ALGORITHM,
    topology: Topology | None = None,
    memory_limit: int | None = None,
) -> Partition:
    """The partition of a saved symbol, as it is trained: every argument but the inputs is learned."""
    _check_workers(workers)
    symbol = _load_symbol(model)
    refuse_unpartitionable(symbol)
    check_names(symbol, shapes)
    inputs, learned = read_training(symbol, shapes)
    settings = Settings(
        workers,
        hints or None,
        for_training=for_training,
        undescribed=undescribed,
        algorithm=algorithm,
        topology=topology,
        memory_limit=memory_limit,
    )
    return compile_partition(symbol, inputs, settings, differentiated=learned, updated=learned)


def _check_workers(workers: int) -> None:
    if not 2 <= workers <= MOST_WORKERS:
        raise TofuError(f"--workers is {workers}; plans are made for 2 to {MOST_WORKERS} workers.")


@main.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--shape", "shapes", multiple=True, required=True, metavar="NAME:D0,D1,...", help="Shape of an input.")
@click.option("--workers", default=8, show_default=True, help="Number of devices.")
@click.option("--algorithm", type=click.Choice(SEARCHES), default=DEFAULT_ALGORITHM, show_default=True)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw it into this file (.png, .svg).")
@click.option("--csv", "csv_path", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file.")
def frontier(
    model: Path, shapes: tuple[str, ...], workers: int, algorithm: str, plot: Path | None, csv_path: Path | None
) -> None:
    """What MODEL moves per training step against what each worker holds: from everything split to data parallelism.

    \b
    Example
        python -m tofu frontier resnet-symbol.json --shape data:64,3,224,224 --workers 8 --plot frontier.png

    tofu.partition(..., memory_limit="12GB") takes the plan that fits.
    """  # noqa: D301  click reads the escape
    _check_workers(workers)
    settings = Settings(workers, algorithm=algorithm, cache=False)
    found = trace_frontier(read_trained(_load_symbol(model), read_shapes(shapes), settings))
    click.echo(str(found))
    if csv_path is not None:
        rows = [f"{most_bytes(plan)},{plan.communication_bytes}" for plan in found.points]
        write_atomically(str(csv_path), "\n".join(["memory per worker,bytes per step", *rows, ""]))
    if plot is not None:
        found.draw(plot)
        click.echo(f"The picture is in {plot}.")


def _load_symbol(path: Path) -> Any:
    """The model in a file; for a partitioned one, the model as it was."""
    try:
        symbol = mx.sym.load(str(path))
    except (mx.base.MXNetError, ValueError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise TofuError(
            f"{path} is not a symbol that MXNet can read ({reason}). Save one with symbol.save(...)."
        ) from error
    return getattr(symbol, "whole", symbol)


main.add_command(ops)
main.add_command(verify)


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
