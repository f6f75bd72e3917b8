"""Models that MXNet saved as symbols, on the command line: planned from shapes alone. `python -m tofu frontier` is for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import click

from tofu.command_line.arguments import read_optimizer, read_shapes
from tofu.command_line.planning_options import OUTPUT, check_folder
from tofu.command_line.requests import SYMBOL, takes_model
from tofu.errors import PlanError, TofuError
from tofu.host.writing import write_atomically
from tofu.mxnet.frontier import describe_point, most_bytes, trace_frontier
from tofu.mxnet.memory.optimizer_states import OptimizerStates
from tofu.mxnet.planning import plan_task, read_trained
from tofu.mxnet.runtime.arguments import read_settings
from tofu.mxnet.runtime.files import read_symbol, shapes_as_saved
from tofu.mxnet.runtime.report_memory import report_one_device, report_workers
from tofu.pipeline import Observer, Partition, Task, observe_by_environment
from tofu.planning.fitting import explain_none, find_fitting
from tofu.planning.progress import search_progress
from tofu.planning.settings import Settings
from tofu.reading import MOST_WORKERS
from tofu.report.console import make_console
from tofu.report.memory import MemoryReport, print_report
from tofu.report.memory_fit import describe_fewest, describe_fit
from tofu.report.memory_plot import plot_memory
from tofu.report.picture import check_picture
from tofu.sizes import format_limit


@dataclass(frozen=True)
class SymbolRequest:
    """A symbol in a file, the shapes of its inputs, and how its user wants it planned."""

    name: str
    symbol: Any
    shapes: Mapping[str, tuple[int, ...]]
    settings: Settings

    def read(self, observe: Observer | None = None) -> Task:
        """Return the model as it is trained, before anything is decided: every argument but the inputs is learned."""
        return read_trained(self.symbol, self.shapes, self.settings, observe)

    def compile(self, observe: Observer | None = None) -> Partition:
        """Return the partition; `observe` is told of every pass. Raises PlanError for one worker."""
        if self.settings.workers == 1:
            raise PlanError(f"--workers is 1; plans are made for 2 to {MOST_WORKERS} workers.")
        with search_progress(self.settings.workers) as progress:
            observe = observe or observe_by_environment()
            return plan_task(self.read(observe), progress, observe)

    def over(self, workers: int) -> SymbolRequest:
        """Return the request for another number of workers."""
        return replace(self, settings=self.settings.over(workers))

    def show_memory(self, device_bytes: int | None, optimizer: str, plot: Path | None, **_: Any) -> None:
        """Print what a training step needs on one device and on every worker."""
        check_plot(plot)
        states = OptimizerStates(*read_optimizer(optimizer))
        report = _report_memory(self, states)
        console = make_console()
        print_report(console, report)
        if plot is not None:
            plot_memory(report, plot)
            console.print(f"The plot is in {plot}.")
        if device_bytes is not None:
            click.echo(describe_fit(report, device_bytes))
            if not report.fits(device_bytes):
                click.echo(_advise(self, report, device_bytes, states))


def read_request(
    model: str,
    workers: int | None,
    planning: Mapping[str, Any],
    use: Callable[[SymbolRequest], None],
    shapes: Sequence[str] = (),
    **_: Any,
) -> None:
    """Read a symbol and call `use` with the request. Raises TofuError if there is no such file, or no shape."""
    if not Path(model).is_file():
        raise TofuError(
            f"There is no file {model}. MODEL is a symbol that MXNet saved, as model-symbol.json, or a step for JAX, as train.py:step."
        )
    if not shapes:
        raise TofuError(
            "--shape is missing: the shape of each input of the symbol, for example --shape data:64,3,224,224."
        )
    symbol = read_symbol(model)
    settings = read_settings(workers, **planning)
    with shapes_as_saved(model):
        use(SymbolRequest(Path(model).name, getattr(symbol, "whole", symbol), read_shapes(shapes), settings))


def check_plot(path: Path | None) -> None:
    """Raise TofuError if a picture cannot be written, before anything is searched."""
    check_folder("--plot", path)
    if path is not None:
        check_picture(path)


def _report_memory(request: SymbolRequest, states: OptimizerStates) -> MemoryReport:
    if request.settings.workers == 1:
        return report_one_device(request.symbol, request.shapes, states)
    return report_workers(request.compile(), states)


def _advise(request: SymbolRequest, report: MemoryReport, device_bytes: int, states: OptimizerStates) -> str:
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
@takes_model(only=SYMBOL)
@click.option("--plot", type=OUTPUT, help="Draw it into this file (.png, .svg).")
@click.option("--csv", "csv_path", type=OUTPUT, help="Write it to this file.")
def frontier(request: SymbolRequest, plot: Path | None, csv_path: Path | None) -> None:
    """What MODEL moves per training step against what each worker holds: from everything but small tensors split
    to data parallelism.

    \b
    Examples
        python -m tofu frontier resnet-symbol.json --shape data:64,3,224,224 --workers 8 --plot frontier.png
        python -m tofu frontier resnet-symbol.json --shape data:64,3,224,224 --workers 8 --memory-limit 12GB

    tofu.partition(..., memory_limit="12GB") takes the plan that fits; --memory-limit says which row that is. --plan adds a plan to
    compare with.
    """  # noqa: D301  click reads the escape
    check_plot(plot)
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
