"""Every optimizer of MXNet over four workers, against one device: 30 steps, and 15 that are saved and resumed elsewhere, in float64.

    python -m benchmarks.optimizers

The numbers are the largest deviations of a weight from one device that was not interrupted, relative to the largest weight of the tensor.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import click

import tofu  # noqa: F401  before MXNet

# isort: split
import mxnet as mx
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.shared.module_runs import (
    batches,
    history_in_double_precision,
    largest_error,
    model,
    split_module,
    start,
    train,
)
from tests.shared.optimizer_cases import CASES, resume_everywhere

STEPS, SAVED_AFTER = 30, 15
TOLERANCE = 1e-7


@click.command(help=__doc__)
def main() -> None:
    steps = batches(STEPS)
    table = Table(
        *("optimizer", "30 steps, k = 4", "resumed, k = 2", "k = 3", "MXNet"), title="Deviations from one device"
    )
    largest = 0.0
    for case in track(CASES, "optimizers"):
        with history_in_double_precision(), tempfile.TemporaryDirectory() as folder:
            expected = train(start(mx.mod.Module(model(case.bias)), case), steps)
            error = largest_error(train(start(split_module(case), case), steps), expected)
            resumed = resume_everywhere(case, steps[:SAVED_AFTER], steps[SAVED_AFTER:], Path(folder))
        errors = (error, *resumed.values())
        largest = max(largest, *errors)
        table.add_row(str(case), *(f"{error:.1e}" for error in errors))
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    console.print(f"largest of all: {largest:.1e}, allowed are {TOLERANCE}")
    sys.exit(largest > TOLERANCE)


if __name__ == "__main__":
    main()
