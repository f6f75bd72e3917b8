"""Bytes moved per training step against memory per worker: the frontier of large models.

    python -m benchmarks.frontier        (part of make bench-search)

From shapes alone. Memory is what MXNet's planner asks for on the worker that needs most; the columns are multiples of the smallest memory
for which a plan was found, and the best plan that fits. Writes a table as CSV and a picture for each model.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

import tofu
from tests.models.paper import Model, transformer, wresnet
from tofu.mxnet.frontier import most_bytes
from tofu.plan import format_bytes
from tofu.search.algorithms import DEFAULT_ALGORITHM, SEARCHES

MODELS: dict[str, Callable[[], Model]] = {
    "Transformer-12": lambda: transformer(12),
    "WResNet-50-4": lambda: wresnet(50, 4, 32),
    "WResNet-152-10": lambda: wresnet(152, 10, 8),
}
MULTIPLES = (1.0, 1.25, 1.5, 2.0, 4.0)
FOLDER = Path("demo-output")


@click.command(help=__doc__)
@click.option("--models", default=",".join(MODELS), show_default=True)
@click.option("--workers", default=8, show_default=True)
@click.option("--algorithm", type=click.Choice(SEARCHES), default=DEFAULT_ALGORITHM, show_default=True)
@click.option("--search-seconds", default=60.0, show_default=True, help="What all exact searches of a model may take.")
@click.option("--folder", default=FOLDER, show_default=True, type=click.Path(path_type=Path))
def main(models: str, workers: int, algorithm: str, search_seconds: float, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = Table(
        title=f"GiB moved per step at multiples of the smallest memory, {workers} workers, {algorithm} search"
    )
    for title in (
        "model",
        "smallest memory",
        *(f"x {multiple:g}" for multiple in MULTIPLES),
        "all but small tensors split",
        "data parallel",
        "s",
    ):
        table.add_column(title, justify="left" if title == "model" else "right")
    rows = []
    for name in models.split(","):
        model, started = MODELS[name](), time.perf_counter()
        found = tofu.frontier(model.symbol, workers, algorithm=algorithm, search_seconds=search_seconds, **model.shapes)
        ends = [found.split_all, *([] if found.data_parallel is None else [found.data_parallel])]
        moved = [found.best_within(multiple * found.smallest_bytes).communication_bytes for multiple in MULTIPLES]
        rows.append([name, found.smallest_bytes, *moved, *(end.communication_bytes for end in ends)])
        described = [f"{end.communication_bytes / 2**30:.2f} in {format_bytes(most_bytes(end))}" for end in ends]
        seconds = f"{time.perf_counter() - started:.0f}"
        gibibytes = (f"{count / 2**30:.2f}" for count in moved)
        table.add_row(name, format_bytes(found.smallest_bytes), *gibibytes, *[*described, "-"][:2], seconds)
        found.draw(folder / f"frontier-{name}.png")
    Console(width=150).print(table)
    with (folder / "frontier.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            [
                "model",
                "smallest bytes per worker",
                *(f"bytes moved at x {m:g}" for m in MULTIPLES),
                "all but small tensors split",
                "data parallel",
            ]
        )
        writer.writerows(rows)


if __name__ == "__main__":
    main()
