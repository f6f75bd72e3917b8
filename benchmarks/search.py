"""The two searches at the paper's scale: seconds of each stage, and how far the recursion is from the optimum.

    python -m benchmarks.search        (make bench-search)

Everything is from shapes alone. Stages are the passes of the pipeline (tofu/pipeline.py), "selected" with the exact search, and before it
the coarse problem; the recursive search, which is a part of it, is timed once more. Seconds are medians of several runs, each in a process
of its own, with the spread (largest minus smallest) beside them; "whole" is from the symbol to the plan, before binding.
It ends with an error where the exact search of WResNet-152-10 holds more memory than docs/search.md states.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click
import matplotlib as mpl
from rich.console import Console
from rich.table import Table

import tofu  # noqa: F401  before MXNet
from tests.models.paper.by_name import MEASURED
from tests.shared.stages import Stages, run_cold
from tofu.mxnet.planning import plan_task
from tofu.planning.settings import Settings
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import price

mpl.use("Agg")

import matplotlib.pyplot as plt  # after the backend is chosen

RECURSIVE = "recursive search"
FOLDER = Path("demo-output")
MOST_SEARCH_GIB = 0.5  # docs/search.md states it of WResNet-152-10 at 8 workers, to one decimal


@dataclass(frozen=True)
class Run:
    """Seconds of each stage, and of the recursive search alone, and what the searches found."""

    seconds: dict[str, float]
    recursive_seconds: float
    operators: int
    recursive_bytes: int
    exact_bytes: int
    bound_bytes: int
    held_bytes: int
    optimality: str

    @property
    def excess(self) -> float:
        """By how much the recursion is above the best plan found, as a fraction."""
        return self.recursive_bytes / max(self.exact_bytes, 1) - 1


def run_once(name: str, workers: int, search_seconds: float) -> Run:
    """The whole pipeline for one model, and the recursive search beside it."""
    model = MEASURED[name]()
    stages = Stages()
    task = model.read(Settings(workers, search_seconds=search_seconds, cache=False), stages)
    stages("coarse problem", task.problem.coarse)
    partition = plan_task(task, observe=stages)
    found, seconds = stages.values["selected"], dict(stages.seconds)
    recursive = stages(RECURSIVE, ALGORITHMS["recursive"].solve(found.choices.problem))
    return Run(
        seconds=seconds,
        recursive_seconds=stages.seconds[RECURSIVE],
        operators=len(task.problem.graph.operators),
        recursive_bytes=price(recursive.choices),
        exact_bytes=price(found.choices),
        bound_bytes=found.lower_bound,
        held_bytes=found.search_bytes,
        optimality=partition.plan.optimality,
    )


def measure(name: str, workers: int, search_seconds: float, runs: int) -> list[Run]:
    """Several runs, each in a process of its own."""
    return [run_cold(run_once, name, workers, search_seconds) for _ in range(runs)]


def summarise(runs: list[Run]) -> dict[str, str | int | float]:
    """One row of the table: medians and spreads."""
    last = runs[-1]
    row: dict[str, str | int | float] = {"operators": last.operators}
    times = {stage: [run.seconds[stage] for run in runs] for stage in last.seconds}
    times["whole"] = [sum(run.seconds.values()) for run in runs]
    times[RECURSIVE] = [run.recursive_seconds for run in runs]
    for stage, taken in times.items():
        row[f"{stage} (s)"] = round(median(taken), 3)
        row[f"{stage} spread (s)"] = round(max(taken) - min(taken), 3)
    row["recursive bytes"], row["exact bytes"] = last.recursive_bytes, last.exact_bytes
    row["proven bound"], row["held bytes"] = last.bound_bytes, last.held_bytes
    row["recursive above exact (%)"] = round(100 * last.excess, 2)
    row["exact is"] = last.optimality
    return row


def print_rows(rows: dict[str, dict[str, str | int | float]]) -> None:
    """One column for each model."""
    table = Table("", *rows, title="The searches")
    for name in next(iter(rows.values())):
        if not name.endswith("spread (s)"):
            table.add_row(name, *(_cell(row, name) for row in rows.values()))
    Console().print(table)


def _cell(row: dict[str, str | int | float], name: str) -> str:
    value = row[name]
    text = f"{value:,}" if isinstance(value, int) else str(value)
    spread = row.get(name.replace(" (s)", " spread (s)"))
    return text if spread is None or not name.endswith("(s)") else f"{text} ± {spread}"


def write_csv(rows: dict[str, dict[str, str | int | float]], path: Path) -> None:
    """One line for each model."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", *next(iter(rows.values()))])
        writer.writerows([name, *row.values()] for name, row in rows.items())


def draw(rows: dict[str, dict[str, str | int | float]], path: Path) -> None:
    """Stages as stacked bars, and the recursion's distance from the best plan."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    bottom = [0.0] * len(rows)
    timed = [name.removesuffix(" (s)") for name in next(iter(rows.values())) if name.endswith(" (s)")]
    stages = [name for name in timed if not name.endswith(" spread") and name not in ("whole", RECURSIVE)]
    for stage in stages:
        heights = [float(row[f"{stage} (s)"]) for row in rows.values()]
        left.bar(list(rows), heights, bottom=bottom, label=stage)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    left.set_ylabel("seconds")
    left.legend()
    right.bar(list(rows), [float(row["recursive above exact (%)"]) for row in rows.values()], color="tab:red")
    right.set_ylabel("recursive plan above the best one, %")
    for axes in (left, right):
        axes.tick_params(axis="x", rotation=20)
    figure.savefig(path, dpi=120)
    plt.close(figure)


@click.command(help=__doc__)
@click.option("--models", default=",".join(MEASURED), show_default=True)
@click.option("--workers", default=8, show_default=True)
@click.option("--runs", default=5, show_default=True)
@click.option("--search-seconds", default=60.0, show_default=True, help="What the exact search may take.")
@click.option("--folder", default=FOLDER, show_default=True, type=click.Path(path_type=Path))
def main(models: str, workers: int, runs: int, search_seconds: float, folder: Path) -> None:
    rows = {name: summarise(measure(name, workers, search_seconds, runs)) for name in models.split(",")}
    print_rows(rows)
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(rows, folder / "search.csv")
    draw(rows, folder / "search.png")
    held = rows.get("WResNet-152-10", {}).get("held bytes", 0)
    if workers == 8 and round(float(held) / 2**30, 1) > MOST_SEARCH_GIB:
        raise click.ClickException(
            f"the search of WResNet-152-10 holds {held:,} bytes, {MOST_SEARCH_GIB} GiB is stated"
        )


if __name__ == "__main__":
    main()
