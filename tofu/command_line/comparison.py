"""`python -m tofu compare`: compare Tofu's plans of a model with hand-made plans."""

from __future__ import annotations

import click

from tofu.command_line.requests import ModelRequest, takes_model
from tofu.planning.progress import show_progress
from tofu.report.console import make_console


@click.command()
@takes_model(stores=False, needs_devices=True)
@click.option(
    "--batch",
    type=click.IntRange(1),
    metavar="N",
    help="JAX: size of the batch dimension. Default: the most frequent first dimension of the arguments after the first one.",
)
def compare(model_request: ModelRequest, batch: int | None) -> None:
    """Compare Tofu's plans of MODEL with hand-made plans.

    Prints the bytes that each plan moves in a training step, and the bytes that each device holds. For an MXNet
    symbol, the hand-made plans are data parallelism and Megatron's plan. For a JAX step, they are data parallelism
    and FSDP (ZeRO-3), and XLA compiles all plans. The step is not run. If this machine has too few devices, virtual
    CPU devices take their place.

    Below a hand-made plan, a row "Tofu within ..." shows the best plan that needs no more memory. --plan adds a row for
    the plan in a file.

    \b
    Examples:
        python -m tofu compare resnet-symbol.json --shape data:64,3,224,224 --workers 8
        python -m tofu compare train.py:step --workers 8
        python -m tofu compare train.py:step --workers 4 --batch 64
    """  # noqa: D301  click reads the escape
    with show_progress() as report:
        show = model_request.compare(batch, report)
    show(make_console())
