"""Memory of a worker, compared with an equal share of one device's memory (section 6 and Figure 7 of the paper).

\b
    python -m benchmarks.memory

A ratio is k times the planned bytes of the worker that needs most, divided by the bytes of one device, for k workers.
Parameters, gradients, one momentum and activations count; workspace does not. Fetch buffers are fetched regions, padded
copies and partial results. "No order" omits the control dependencies, which keep the kernels of the execution graph in
their original order.
"""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.table import Table

import tofu
from tests.models.paper import PaperModel
from tests.models.paper.by_name import MEASURED
from tests.shared.campaigns import choose_names
from tofu import _mxnet
from tofu.mxnet.backend.buffers import worker_variables
from tofu.search.algorithms import DEFAULT_ALGORITHM

RATIOS: dict[str, dict[str, Any]] = {
    "with fetch buffers": {},
    "without": {"holds_transit": False},
    "with, no order": {"keeps_order": False},
    "without, no order": {"keeps_order": False, "holds_transit": False},
}
GIB = 2**30


def measure(model: PaperModel, workers: int, algorithm: str) -> list[str]:
    symbol = tofu.partition(model.symbol, workers, algorithm=algorithm, **model.shapes)
    report = tofu.memory_report(symbol)
    partition = symbol.planned()
    variables = worker_variables(partition.choices, partition.training)
    largest = report.largest
    sizes = report.one_device.planned_bytes, largest.planned_bytes, largest.at_peak["fetch buffers"]
    cells = [f"{size / GIB:.2f}" for size in sizes]
    for options in RATIOS.values():
        planned = _mxnet.PlannedGraph(partition.training.symbol.handle.value, *variables, **options).memory()
        pools = [planned[f"tofu_worker_{number}"]["pool"] for number in range(workers)]
        needed = [w.planned_bytes - w.pool_bytes + pool for w, pool in zip(report.workers, pools, strict=True)]
        cells.append(f"{max(needed) * workers / report.one_device.planned_bytes:.3f}")
    return cells


@click.command(help=__doc__)
@click.option("--models", help="Names, separated by commas. By default, all.")
@click.option("--workers", default=8, show_default=True)
@click.option("--algorithm", default=DEFAULT_ALGORITHM, show_default=True)
def main(models: str | None, workers: int, algorithm: str) -> None:
    table = Table(title=f"Planned bytes of a worker over 1/{workers} of one device's")
    table.add_column("model")
    for title in ("one device, GiB", "worker, GiB", "fetch buffers at the peak, GiB", *RATIOS):
        table.add_column(title, justify="right")
    for name in choose_names(models, MEASURED):
        table.add_row(name, *measure(MEASURED[name](), workers, algorithm))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
