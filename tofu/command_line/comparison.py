"""`python -m tofu compare`: plans of a model compared with hand-made ones."""

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
    help="JAX: extent of the batch dimension. Default: the most frequent first dimension of arguments after the first.",
)
def compare(request: ModelRequest, batch: int | None) -> None:
    """Compare plans of MODEL with hand-made ones.

    Prints the bytes moved in a training step, and the bytes held by each device. For an MXNet symbol the hand-made
    plans are data parallelism and Megatron's plan. For a JAX step they are data parallelism and FSDP (ZeRO-3),
    compiled by XLA. Nothing runs; virtual CPU devices replace missing ones.

    "Tofu within" a hand-made plan is the best plan that holds no more memory. --plan adds a plan to the comparison.

    \b
    Examples:
        python -m tofu compare resnet-symbol.json --shape data:64,3,224,224 --workers 8
        python -m tofu compare train.py:step --workers 8
        python -m tofu compare train.py:step --workers 4 --batch 64
    """  # noqa: D301  click reads the escape
    with stage_progress() as report:
        show = request.compare(batch, report)
    show(make_console())
