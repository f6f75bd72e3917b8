"""`python -m tofu compare`: plans of a step for JAX beside what people write by hand."""

from __future__ import annotations

from typing import Any

import click

from tofu.command_line.requests import takes_model
from tofu.engines import JAX
from tofu.planning.progress import stage_progress
from tofu.report.console import make_console


@click.command()
@takes_model(only=JAX, stores=False, needs_devices=True)
@click.option(
    "--batch",
    type=click.IntRange(1),
    metavar="N",
    help="The extent of the batch, which the peers split; by default what most arguments after the first begin with.",
)
def compare(request: Any, batch: int | None) -> None:
    """Compare plans of a step with data parallelism and FSDP (ZeRO-3): bytes that move, and bytes that each device holds.

    Each is compiled by XLA, for devices of the CPU where there are too few others, and nothing is run. "Tofu within" a peer is the best
    plan that holds no more than that peer does. A plan given by --plan stands beside those that are searched.

    \b
    Examples
        python -m tofu compare train.py:step --workers 8
        python -m tofu compare train.py:step --workers 4 --batch 64
    """  # noqa: D301  click reads the escape
    comparing, peers = map(JAX.load, ("compare.comparison", "compare.peers"))
    arguments = peers.split_arguments(request.file.arguments, batch)
    devices = comparing.find_devices(request.settings.workers)
    rows = []
    with stage_progress() as report:
        report("compiling the step for one device")
        for row in comparing.Comparison(request.file.step, request.source, arguments, request.settings, devices).run():
            rows.append(row)
            report(f"compiling plans, {len(rows)} so far")
    comparing.print_rows(make_console(), f"{request.file.name} on {len(devices)} devices", rows)
