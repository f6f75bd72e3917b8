"""`python -m tofu compare`: plans of a model beside those that people write by hand."""

from __future__ import annotations

import click

from tofu.command_line.requests import ModelRequest, takes_model
from tofu.planning.progress import stage_progress
from tofu.report.console import make_console


@click.command()
@takes_model(stores=False, needs_devices=True)
@click.option(
    "--batch",
    type=click.IntRange(1),
    metavar="N",
    help="JAX: the extent of the batch, which the peers split; by default what most arguments after the first begin with.",
)
def compare(request: ModelRequest, batch: int | None) -> None:
    """Compare plans of MODEL with those that people write by hand: bytes that move, and bytes that each device holds.

    Of an MXNet symbol these are data parallelism and Megatron's plan. Of a step for JAX they are data parallelism and FSDP (ZeRO-3). Each
    is compiled by XLA, for devices of the CPU where there are too few others, and nothing is run.

    "Tofu within" a peer is the best plan that holds no more than that peer does. A plan given by --plan stands beside the others.

    \b
    Examples
        python -m tofu compare resnet-symbol.json --shape data:64,3,224,224 --workers 8
        python -m tofu compare train.py:step --workers 8
        python -m tofu compare train.py:step --workers 4 --batch 64
    """  # noqa: D301  click reads the escape
    with stage_progress() as report:
        show = request.compare(batch, report)
    show(make_console())
