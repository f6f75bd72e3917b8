"""`python -m tofu frontier`: list the plans of a model that trade communication for memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tofu.command_line.planning_options import OUTPUT, check_folder, check_plot
from tofu.command_line.requests import takes_model
from tofu.engines import MXNET
from tofu.host.writing import write_atomically
from tofu.mxnet.frontier import describe_point, most_bytes, trace_frontier
from tofu.sizes import format_limit

INSTEAD = (
    "For a step, `python -m tofu plan --memory-limit SIZE` shows the plan that fits into SIZE, and `python -m tofu compare` the plans that "
    "hold no more than data parallelism and FSDP."
)


@click.command()
@takes_model(only=MXNET, instead=INSTEAD)
@click.option("--plot", type=OUTPUT, help="Draw the frontier to this file (.png, .svg).")
@click.option("--csv", "csv_path", type=OUTPUT, help="Write the frontier to this CSV file.")
def frontier(model_request: Any, plot: Path | None, csv_path: Path | None) -> None:
    """List plans of MODEL that trade communication for memory.

    The first plan splits every tensor and needs the least memory. Later plans replicate more tensors, which needs
    more memory and saves communication; data parallelism replicates all parameters. Prints the communication and
    the memory of each worker.

    With --memory-limit, the command also prints which row tofu.partition(..., memory_limit="12GB") would use. With
    --plan, it also prints the communication and the memory of the plan in that file.

    \b
    Examples:
        python -m tofu frontier resnet-symbol.json --shape data:64,3,224,224 --workers 8 --plot frontier.png
        python -m tofu frontier resnet-symbol.json --shape data:64,3,224,224 --workers 8 --memory-limit 12GB
    """  # noqa: D301  click reads the escape
    check_plot(plot)
    check_folder("--csv", csv_path)
    settings = model_request.settings
    unconstrained_settings = replace(settings, plan=None, memory_limit=None, cache=False)
    plans = trace_frontier(model_request.symbol, model_request.shapes, unconstrained_settings)
    click.echo(str(plans))
    if settings.plan is not None:
        click.echo(f"--plan: {describe_point(model_request.compile().plan)}")
    if settings.memory_limit is not None:
        best = plans.best_within(settings.memory_limit)
        click.echo(f"within {format_limit(settings.memory_limit)}: row {plans.points.index(best) + 1}")
    if csv_path is not None:
        rows = [f"{most_bytes(plan)},{plan.communication_bytes}" for plan in plans.points]
        write_atomically(str(csv_path), "\n".join(["memory per worker,bytes per step", *rows, ""]))
    if plot is not None:
        plans.draw(plot)
        click.echo(f"The picture is in {plot}.")
