"""How far the default plan is from the best one: all of the paper's models, at any number of workers.

    python -m benchmarks.optimality                                  every model at 2, 4, 8 workers, then at 6, 12 and 16
    python -m benchmarks.optimality --models rnn-4-4k --workers 8

One search over each order of the factors, from shapes alone. "above bound": the plan moves at most so much more than any plan has to.
Each row is made in a process of its own and written as it comes; what the file holds already of this tree and this effort is not searched
again. "seconds" are those of the search. It ends with an error where a row misses what
docs/search.md states: seconds on two quiet cores, per cent above a bound, and by how much the recursion is above the plan.
"""

from __future__ import annotations

import csv
import time
from math import ceil
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tests.models.paper import Model
from tests.models.paper.by_name import build_model
from tests.shared.commits import name_tree
from tests.shared.stages import run_cold
from tofu.planning.settings import Settings
from tofu.search.algorithms import ALGORITHMS
from tofu.search.solve import DEFAULT_SEARCH_SECONDS, Effort
from tofu.search.topology import Arrangement

MODELS = (
    *(f"wresnet-{layers}-{width}" for layers in (50, 101, 152) for width in (4, 6, 8, 10)),
    *(f"rnn-{layers}-{cells}k" for layers in (4, 6, 8, 10) for cells in (4, 6, 8)),
    *(f"transformer-{layers}" for layers in (12, 24, 96)),
)
BATCHES = {"wresnet": 8, "rnn": 128, "transformer": 16}
WORKERS = (2, 4, 8, 6, 12, 16)
FILE = Path("demo-output/optimality.csv")
MOST_SECONDS = 10  # at 2, 4, 6 and 8 workers
MOST_ABOVE_BOUND = {2: 0, 4: 0, 6: 0, 8: 0, 12: 0.5, 16: 6.6}
MOST_ABOVE_BOUND_AT_30 = {16: 2.4}  # with `--search-seconds 30` or more
MOST_RECURSION = 13.2
NOT_PROVED_AT_12 = 2

KEPT_FOR = "tree", "search seconds"  # what a row that was found earlier has to be of

Row = dict[str, str]


def measure(name: str, workers: int, search_seconds: float) -> Row:
    """The best plan of all orders, and what is proved of all of them."""
    began = time.process_time()
    model = build_named(name)
    problem = model.read(Settings(workers)).problem
    analysed = time.process_time() - began
    orders = ALGORITHMS["exact"].list_orders(workers)
    started, started_cpu = time.perf_counter(), time.process_time()
    found = []
    for order in orders:
        arranged = problem.arrange(Arrangement(order))
        result = ALGORITHMS["exact"].solve(arranged, effort=Effort(search_seconds / len(orders))).exact
        assert result is not None
        found.append((sum(result.plan.step_bytes), order, result))
    moved, factors, _ = min(found, key=lambda one: one[0])
    bound = min(result.lower_bound for _, _, result in found)
    recursive = min(result.recursive_bytes for _, _, result in found)
    return {
        "tree": name_tree(),
        "search seconds": f"{search_seconds:g}",
        "model": model.name,
        "workers": str(workers),
        "analysis, processor seconds": f"{analysed:.2f}",
        "seconds": f"{time.perf_counter() - started:.2f}",
        "processor seconds": f"{time.process_time() - started_cpu:.2f}",
        "factors": " x ".join(map(str, factors)),
        "GiB": f"{moved / 2**30:.2f}",
        "above bound (%)": "optimal" if moved == bound else f"{_percent(moved, bound):g}",
        "recursion above (%)": f"{_percent(recursive, moved):g}",
    }


def build_named(name: str) -> Model:
    """A model at the batch that its family has."""
    return build_model(name, BATCHES[name.split("-")[0]])


def _percent(larger: int, smaller: int) -> float:
    """By how much, rounded up."""
    return ceil((larger / max(smaller, 1) - 1) * 1e4) / 1e2


def read_rows(file: Path, search_seconds: float) -> list[Row]:
    """What earlier runs of this tree have found with that effort."""
    if not file.exists():
        return []
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    own = dict(zip(KEPT_FOR, (name_tree(), f"{search_seconds:g}"), strict=True))
    return [row for row in rows if own.items() <= row.items()]


def write_row(file: Path, row: Row) -> None:
    """Adds a row."""
    file.parent.mkdir(parents=True, exist_ok=True)
    is_new = not file.exists()
    with file.open("a", newline="") as lines:
        writer = csv.DictWriter(lines, row)
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def print_rows(rows: list[Row]) -> None:
    """As a table, and how many are proved."""
    shown = [name for name in rows[0] if name not in KEPT_FOR]
    table = Table(*shown, title="The default plan against the best one")
    for row in rows:
        table.add_row(*(row[name] for name in shown))
    Console(width=150).print(table)
    proved = sum(row["above bound (%)"] == "optimal" for row in rows)
    worst = max((float(row["above bound (%)"]) for row in rows if row["above bound (%)"] != "optimal"), default=0.0)
    print(f"{proved} of {len(rows)} are proved to be optimal, the others are at most {worst:g} % above a bound.")


@click.command(help=__doc__)
@click.option("--models", default=",".join(MODELS))
@click.option("--workers", default=",".join(map(str, WORKERS)), show_default=True)
@click.option("--search-seconds", default=DEFAULT_SEARCH_SECONDS, show_default=True)
@click.option("--file", default=FILE, show_default=True, type=click.Path(path_type=Path))
def main(models: str, workers: str, search_seconds: float, file: Path) -> None:
    for name in models.split(","):
        known = {(row["model"], row["workers"]) for row in read_rows(file, search_seconds)}
        for k in workers.split(","):
            if (build_named(name).name, k) not in known:
                write_row(file, run_cold(measure, name, int(k), search_seconds))
    rows = read_rows(file, search_seconds)
    print_rows(rows)
    missed = find_missed(rows)
    if missed:
        raise click.ClickException("\n".join(missed))


def find_missed(rows: list[Row]) -> list[str]:
    """The rows that are worse than docs/search.md states, with their figures."""
    missed = []
    for row in rows:
        workers = int(row["workers"])
        above = 0.0 if row["above bound (%)"] == "optimal" else float(row["above bound (%)"])
        bounds = MOST_ABOVE_BOUND | (MOST_ABOVE_BOUND_AT_30 if float(row["search seconds"]) >= 30 else {})
        figures = [
            ("% above a bound", above, bounds.get(workers, above)),
            ("% of the recursion above it", float(row["recursion above (%)"]), MOST_RECURSION),
            ("seconds", float(row["seconds"]) if workers <= 8 else 0.0, MOST_SECONDS),
        ]
        missed += [
            f"{row['model']}, {workers} workers: {found:g} {what}, at most {most:g} is stated"
            for what, found, most in figures
            if found > most
        ]
    open_at_12 = [row["model"] for row in rows if row["workers"] == "12" and row["above bound (%)"] != "optimal"]
    if len(open_at_12) > NOT_PROVED_AT_12:
        missed.append(f"not proved at 12 workers: {', '.join(open_at_12)}, {NOT_PROVED_AT_12} is stated")
    return missed


if __name__ == "__main__":
    main()
