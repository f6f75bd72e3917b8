"""`make demo`: the same training script on one device and on several workers, side by side."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import mxnet as mx
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import tofu
from benchmarks.demo_picture import draw
from tests.shared import digits
from tofu import _mxnet
from tofu.mxnet.check.execution import count_remote_bytes
from tofu.pipeline import Partition
from tofu.report.console import make_console, new_table
from tofu.report.plan_table import print_partition

PLAN_ROWS = 40


@dataclass
class DemoRun:
    """Training run of the demo. `moved_bytes` are the bytes that fetches read from other workers in each step."""

    title: str
    symbol: Any
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    moved_bytes: set[int] = field(default_factory=set)

    def follow(self, data: digits.Digits, epochs: int) -> Iterator[digits.TrainingStep | digits.Epoch]:
        training = digits.train(self.symbol, data, epochs)
        _mxnet.reset_counters()
        for event in training:
            if isinstance(event, digits.TrainingStep):
                self.losses.append(event.loss)
                self.seconds += event.seconds
                self.moved_bytes.add(_mxnet.counters()["bytes_read_remote"])
            else:
                self.accuracies.append(event.accuracy)
            yield event
            _mxnet.reset_counters()


def train_side_by_side(console: Console, runs: Sequence[DemoRun], data: digits.Digits, epochs: int) -> None:
    steps = epochs * (len(data.train_images) // digits.BATCH_SIZE)
    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(bar_width=20),  # all columns fit into 80 characters
        TextColumn("step {task.completed:.0f} of {task.total:.0f}"),
        TextColumn("loss {task.fields[loss]}  test {task.fields[accuracy]}", style="cyan"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        tasks = [progress.add_task(run.title, total=steps, loss="  -  ", accuracy="  -  ") for run in runs]
        for events in zip(*(run.follow(data, epochs) for run in runs), strict=True):
            for task, event in zip(tasks, events, strict=True):
                if isinstance(event, digits.TrainingStep):
                    progress.update(task, advance=1, loss=f"{event.loss:.3f}")
                else:
                    progress.update(task, accuracy=f"{event.accuracy:.1%}")


def epoch_losses(run: DemoRun) -> list[float]:
    steps = len(run.losses) // len(run.accuracies)
    return [sum(run.losses[i * steps : (i + 1) * steps]) / steps for i in range(len(run.accuracies))]


def training_table(runs: Sequence[DemoRun]) -> Table:
    table = new_table()
    table.add_column("epoch", justify="right")
    for what in ("loss", "test accuracy"):
        for run in runs:
            table.add_column(f"{what}\n{run.title}", justify="right")
    losses = [epoch_losses(run) for run in runs]
    for epoch in range(len(runs[0].accuracies)):
        accuracies = [f"{run.accuracies[epoch]:.1%}" for run in runs]
        table.add_row(str(epoch + 1), *(f"{loss[epoch]:.4f}" for loss in losses), *accuracies)
    table.add_row(
        "", *[""] * len(runs), *[f"{run.seconds / len(run.losses) * 1e3:.0f} ms a step" for run in runs], style="dim"
    )
    return table


def compare_traffic(console: Console, partition: Partition, measured: set[int]) -> bool:
    """Print three independent counts of the bytes of a training step. Return True if they are equal."""
    counts = {
        "planned, by geometry": {partition.plan.communication_bytes},
        "counted, in the partitioned graph's fetches": {count_remote_bytes(partition.training.symbol)},
        "measured, by the running kernels, in every step": measured,
    }
    table = new_table()
    table.add_column("bytes that workers read from each other in one training step")
    table.add_column("", justify="right")
    for title, found in counts.items():
        table.add_row(title, ", ".join(f"{count:,}" for count in sorted(found)))
    console.print(table)
    return len(set().union(*counts.values())) == 1


def save_results(folder: Path, runs: Sequence[DemoRun], partition: Partition) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    plan = partition.plan
    (folder / "plan.json").write_text(plan.to_json() + "\n")
    results = {
        "losses": {run.title: run.losses for run in runs},
        "accuracies": {run.title: run.accuracies for run in runs},
        "moved_bytes": sorted(runs[-1].moved_bytes),
        "communication_bytes": plan.communication_bytes,
        "worker_bytes": plan.worker_bytes,
        "single_device_bytes": partition.measure_whole(),
    }
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    draw(folder / "demo.png", results)


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--epochs", default=10, type=click.IntRange(1), help="Passes over the training images.")
@click.option("--workers", default=4, type=click.IntRange(2), help="Workers, each on a separate CPU device.")
@click.option("--filters", default=48, type=click.IntRange(8), help="Filters of the first stage; later ones have more.")
@click.option(
    "--samples", default=None, type=click.IntRange(digits.BATCH_SIZE), help="Train on the first so many only."
)
@click.option(
    "--output", default="demo-output", type=click.Path(file_okay=False, path_type=Path), help="Where files go."
)
def main(epochs: int, workers: int, filters: int, samples: int | None, output: Path) -> None:
    """Train a residual CNN on handwritten digits, on one device and on several workers side by side.

    Both runs are the same script (tests/shared/digits.py: train), written for MXNet's own Module. The only difference is
    one line: the second run gets tofu.partition(model, ngpus=WORKERS) in place of the model.

    The two loss curves are the same. The plan splits early layers along the batch (axis b), because their activations
    are large, and late layers along channels (co, ci), because their weights are. Three independent counts of the
    transferred bytes agree. Each worker needs about 1/WORKERS of the memory of one device.

    The demo writes plan.json, results.json and demo.png to the output folder.
    """
    os.environ.setdefault("MXNET_SUBGRAPH_VERBOSE", "0")  # MXNet announces its CPU backend in the middle of the display
    console = make_console()
    data, model = digits.load(samples), digits.residual_network(filters)
    partitioned = tofu.partition(model, ngpus=workers, contexts=[mx.cpu(i) for i in range(workers)])
    runs = (DemoRun("one device", model), DemoRun(f"{workers} workers", partitioned))
    console.print(f"A residual CNN on {len(data.train_images):,} handwritten digits, {digits.BATCH_SIZE} a step.\n")
    train_side_by_side(console, runs, data, epochs)
    console.print(training_table(runs))
    console.print(
        "Later digits differ: in float32 the order of additions shows, and training amplifies it.\n", style="dim"
    )

    partition = tofu.bind(partitioned, **digits.input_shapes()).partition
    print_partition(console, partition, PLAN_ROWS)
    console.print()
    agree = compare_traffic(console, partition, runs[1].moved_bytes)
    save_results(output, runs, partition)
    console.print(f"\nThe picture is {output / 'demo.png'}, the plan {output / 'plan.json'}.")
    if not agree:
        sys.exit("The three counts differ, which is a defect of Tofu: please report it with plan.json.")


if __name__ == "__main__":
    main(prog_name="make demo")
