"""`python -m tofu plan` and `memory`, which use no devices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import click

from tofu.command_line.arguments import read_optimizer
from tofu.command_line.planning_options import OUTPUT, check_folder, check_plot
from tofu.command_line.requests import ModelRequest, takes_model
from tofu.engines import MXNET
from tofu.formatting import format_bytes
from tofu.host.writing import write_atomically
from tofu.pipeline import Observer, observe_by_environment
from tofu.planning.fitting import explain_none, find_fitting
from tofu.report.alternatives import find_layer
from tofu.report.console import make_console
from tofu.report.data_parallel import describe_data_parallel
from tofu.report.memory import MemoryComparison, print_report
from tofu.report.plan_page import render_page
from tofu.report.plan_table import DEFAULT_ROWS, alternatives_table, print_partition, timings_table
from tofu.search import Problem
from tofu.sizes import read_bytes

T = TypeVar("T")


@click.command()
@takes_model()
@click.option("--inference", is_flag=True, help="MXNet: plan only the forward graph.")
@click.option(
    "--rows",
    type=click.IntRange(0),
    default=DEFAULT_ROWS,
    show_default=True,
    help="Maximum number of rows in the table of layers; 0 for all.",
)
@click.option(
    "--why",
    multiple=True,
    metavar="LAYER",
    help="For each axis of LAYER, show the bytes that the plan would move if LAYER were split along it. LAYER is an operator, or a "
    "row of the table, a scope or a line, which stands for its largest operator. May be repeated.",
)
@click.option(
    "--report",
    "page",
    type=OUTPUT,
    help="Write an HTML page with the splits, the transfers and the alternatives of each layer.",
)
@click.option("--save", "--json", "saved", type=OUTPUT, help="Write the plan to this JSON file.")
@click.option("--timings", is_flag=True, help="Print the time of each pass of the planner.")
@click.option("--lines", is_flag=True, help="JAX: show each layer's line of the program.")
def plan(
    model_request: Any,
    inference: bool,
    rows: int,
    why: tuple[str, ...],
    page: Path | None,
    saved: Path | None,
    timings: bool,
    lines: bool,
) -> None:
    """Plan how to split MODEL over several devices.

    Prints how each layer is split, the bytes that it moves between devices, and the memory of each worker. A worker
    is one device.

    MODEL is a symbol saved by MXNet, or FILE.py:STEP, a training step for JAX. STEP is a function that takes the
    training state and a batch, or other pytrees of arrays. It computes the gradients and updates the parameters.
    Its first result is the next state. The file also defines a function example_args(), which returns the
    arguments of STEP as arrays, or as jax.ShapeDtypeStructs from jax.eval_shape.

    The command reads shapes only. It neither reads parameters nor allocates memory for the model.

    \b
    Examples:
        python -m tofu plan resnet-symbol.json --shape data:64,3,224,224
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --hint fc1_weight=0 --hint conv2=co
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --why conv2 --report plan.html
        python -m tofu plan train.py:step --workers 8 --save plan.json
        python -m tofu plan train.py --args tiny_args --hint params/w1=0 --why "jvp()/dot_general"

    --save writes the plan to a file. tofu.partition(..., plan="plan.json") and --plan of other commands apply it.

    Planning is a sequence of passes, which --timings lists. To print the results of some passes, set the
    environment variable TOFU_PRINT to their names, such as TOFU_PRINT=lowered,program.
    """  # noqa: D301  click reads the escape
    check_folder("--save", saved)
    check_folder("--report", page)
    requested = replace(model_request, settings=replace(model_request.settings, for_training=not inference))
    observe = _CheckingLayers(observe_by_environment().shown, layers=why)
    partition = requested.compile(observe)
    if saved is not None:
        write_atomically(str(saved), partition.plan.to_json() + "\n")
    console = make_console()
    print_partition(console, partition, rows or None, lines)
    if advice := describe_data_parallel(partition):
        console.print(f"\n{advice}", soft_wrap=True)
    if timings:
        console.print("", timings_table(observe.seconds), sep="\n")
    for layer in why:
        console.print("", alternatives_table(partition, layer), sep="\n")
    if page is not None:
        write_atomically(str(page), render_page(partition, model_request.name))
        console.print(f"\nThe page is in {page}.")
    if saved is not None:
        console.print(f"\nThe plan is in {saved}.")


@dataclass
class _CheckingLayers(Observer):
    layers: tuple[str, ...] = ()

    def __call__(self, name: str, value: T) -> T:
        if isinstance(value, Problem):
            for layer in self.layers:
                find_layer(layer, value)
        return super().__call__(name, value)


@click.command()
@takes_model()
@click.option(
    "--device-memory",
    metavar="SIZE",
    help="Memory of one device, such as 12GB or 16GiB. Prints whether the step fits and, if not, how many workers it needs.",
)
@click.option(
    "--optimizer",
    default="sgd,momentum=0.9",
    show_default=True,
    metavar="NAME[,PARAMETER=VALUE...]",
    help='MXNet: optimizer whose states count as memory, or "none".',
)
@click.option(
    "--plot", "memory_plot", type=OUTPUT, help="MXNet: plot the memory in use during a step to this file (.png, .svg)."
)
def memory(model_request: ModelRequest, device_memory: str | None, optimizer: str, memory_plot: Path | None) -> None:
    """Show the memory of a training step of MODEL.

    Prints the memory that the step needs on one device, and on every worker of a plan. With --workers 1, prints one
    device only. The command reads shapes only. It neither reads parameters nor allocates memory for the model.

    For an MXNet symbol, sizes are exact to the byte, except the workspace of convolutions, which is estimated. For
    a JAX step, the sizes of arguments and results are exact, and the memory of temporary arrays is predicted.

    \b
    Examples:
        python -m tofu memory resnet-symbol.json --shape data:64,3,224,224
        python -m tofu memory lm-symbol.json --shape data:32,512 --optimizer adam --plot memory.png
        python -m tofu memory train.py:step --workers 8 --donate 0 --device-memory 16GiB
    """  # noqa: D301  click reads the escape
    device_bytes = None if device_memory is None else read_bytes(device_memory, "--device-memory")
    check_plot(memory_plot)
    optimizer_states = read_optimizer(optimizer)
    report, console = model_request.report_memory(optimizer=optimizer_states), make_console()
    print_report(console, report)
    if memory_plot is not None:
        MXNET.load("memory.plot").plot_memory(report, memory_plot)
        console.print(f"The plot is in {memory_plot}.")
    if device_bytes is None:
        return
    click.echo(report.describe_fit(device_bytes))
    if not report.fits(device_bytes):
        click.echo(_describe_fewest_workers(model_request, report, device_bytes, optimizer=optimizer_states))


def _describe_fewest_workers(
    model_request: ModelRequest, report: MemoryComparison, device_bytes: int, **options: Any
) -> str:
    one_device = report.columns[0][1]
    # The search begins where an even division would fit.
    first_count = max(1, ceil(one_device.total[1] / device_bytes))

    def make(workers: int) -> tuple[int, MemoryComparison]:
        return workers, model_request.over(workers).report_memory(**options)

    fewest = find_fitting(first_count, device_bytes, make, lambda made: made[1].largest.needed_bytes)
    if fewest is None:
        return explain_none(model_request.over(2).read().problem, device_bytes, first_count)
    workers, fitting = fewest
    needs = format_bytes(fitting.largest.needed_bytes)
    return (
        "One device is enough." if workers == 1 else f"{workers} workers are the fewest that fit: each needs {needs}."
    )
