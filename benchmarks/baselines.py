"""Bytes per training step of the default plan against every baseline (section 7.3 of the paper).

    python -m benchmarks.baselines        (part of make bench-search)

From shapes alone. Every row is a plan that runs, and its bytes are counted. A ratio is to the default plan of the same model; "-" stands
where a baseline does not apply. The two searches beside the baselines say whether the algorithm of icml18, once it may add up partial
results (that is the exact search), finds the plan of the recursion, as the paper says.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.table import Table

import tofu  # noqa: F401  before MXNet
from tests.models.paper import Model, rnn, transformer, wresnet
from tofu.errors import InfeasibleError
from tofu.planning.settings import Settings
from tofu.search.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, SEARCHES
from tofu.search.cost import evaluate
from tofu.search.solve import Effort
from tofu.search.topology import Arrangement

mpl.use("Agg")

import matplotlib.pyplot as plt  # after the backend is chosen

MODELS: dict[str, Callable[[], Model]] = {
    "WResNet-152-10": lambda: wresnet(152, 10, 8),
    "WResNet-50-4": lambda: wresnet(50, 4, 32),
    "RNN-4-4K": lambda: rnn(4, 4096, 512),
    "RNN-4-8K": lambda: rnn(4, 8192, 512),
    "Transformer-12": lambda: transformer(12),
    "Transformer-12 (heads first)": lambda: transformer(12, heads_first=True),
}
FOLDER = Path("demo-output")


@dataclass(frozen=True)
class Row:
    """What one algorithm makes of one model: bytes per training step, or None where it does not apply."""

    model: str
    algorithm: str
    moved_bytes: int | None
    seconds: float
    differing_operators: int  # from the recursion's plan, of those of the same steps; -1 for other steps

    def ratio(self, default_bytes: int) -> float | None:
        """How much more than the default plan it moves."""
        return None if self.moved_bytes is None else self.moved_bytes / default_bytes


def compare(model: Model, workers: int, search_seconds: float) -> list[Row]:
    """Every algorithm on one model."""
    whole = model.read(Settings(workers)).problem
    rows, recursive = [], None
    for name, algorithm in ALGORITHMS.items():
        problem = whole.arrange(Arrangement(algorithm.list_orders(workers)[0]))
        started = time.perf_counter()
        try:
            choices = algorithm.solve(problem, effort=Effort(search_seconds)).choices
        except InfeasibleError:
            rows.append(Row(model.name, name, None, 0.0, -1))
            continue
        seconds = time.perf_counter() - started
        recursive = choices if name == "recursive" else recursive
        differing = -1
        if recursive is not None and recursive.operators.shape == choices.operators.shape:
            differing = int(np.any(recursive.operators != choices.operators, axis=1).sum())
        rows.append(Row(model.name, name, evaluate(choices).total_bytes, seconds, differing))
    return rows


def default_bytes(rows: list[Row]) -> int:
    """What the default plan moves."""
    (found,) = (row.moved_bytes for row in rows if row.algorithm == DEFAULT_ALGORITHM)
    assert found is not None
    return found


def print_table(by_model: dict[str, list[Row]]) -> None:
    """Ratios to the default plan, a column for each model."""
    console = Console(width=150)
    table = Table("", *by_model, title=f"Bytes per training step, as ratios to the default plan ({DEFAULT_ALGORITHM})")
    table.add_row("default, GiB", *(f"{default_bytes(rows) / 2**30:.2f}" for rows in by_model.values()))
    for algorithm in ALGORITHMS:
        cells = []
        for rows in by_model.values():
            ratio = next(row for row in rows if row.algorithm == algorithm).ratio(default_bytes(rows))
            cells.append("-" if ratio is None else f"{ratio:.3f}")
        table.add_row(algorithm, *cells)
    console.print(table)
    for name, rows in by_model.items():
        recursive, exact = (next(row for row in rows if row.algorithm == a) for a in SEARCHES)
        more = (exact.moved_bytes or 0) / (recursive.moved_bytes or 1) - 1
        console.print(
            f"{name}: icml18 with output reduction moves {more:+.1%} against the recursion; "
            f"{exact.differing_operators} operators differ"
        )


def write_csv(by_model: dict[str, list[Row]], path: Path) -> None:
    """One line for each model and algorithm."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "algorithm", "bytes per step", "ratio to default", "seconds"])
        for rows in by_model.values():
            for row in rows:
                ratio = row.ratio(default_bytes(rows))
                writer.writerow([row.model, row.algorithm, row.moved_bytes, ratio, round(row.seconds, 3)])


def draw(by_model: dict[str, list[Row]], path: Path) -> None:
    """Ratios as bars; a group for each model."""
    figure, axes = plt.subplots(figsize=(12, 4.5), layout="constrained")
    width = 0.9 / len(ALGORITHMS)
    for number, algorithm in enumerate(ALGORITHMS):
        heights = []
        for rows in by_model.values():
            ratio = next(row for row in rows if row.algorithm == algorithm).ratio(default_bytes(rows))
            heights.append(np.nan if ratio is None else ratio)
        axes.bar(np.arange(len(by_model)) + number * width, heights, width, label=algorithm)
    axes.set_xticks(np.arange(len(by_model)) + 0.4, list(by_model))
    axes.set_yscale("log")
    axes.set_ylabel("bytes per step / default plan")
    axes.axhline(1, color="black", linewidth=0.8)
    axes.legend(ncols=4, fontsize="small")
    figure.savefig(path, dpi=120)
    plt.close(figure)


@click.command(help=__doc__)
@click.option("--models", default=",".join(MODELS), show_default=True)
@click.option("--workers", default=8, show_default=True)
@click.option("--search-seconds", default=60.0, show_default=True, help="What an exact search may take.")
@click.option("--folder", default=FOLDER, show_default=True, type=click.Path(path_type=Path))
def main(models: str, workers: int, search_seconds: float, folder: Path) -> None:
    by_model = {name: compare(MODELS[name](), workers, search_seconds) for name in models.split(",")}
    print_table(by_model)
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(by_model, folder / "baselines.csv")
    draw(by_model, folder / "baselines.png")


if __name__ == "__main__":
    main()
