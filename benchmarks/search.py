"""Time of the searches, and quality of their plans, from shapes alone.

\b
    python -m benchmarks.search stages          seconds of each pass, and bytes of every algorithm
    python -m benchmarks.search scaling         seconds for ResNets of 152 to 1,520 layers, Transformers of 12 to 96
    python -m benchmarks.search optimality      distance of the default plan from the best one (part of an hour)

Every measurement runs in a separate process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import ceil
from statistics import median

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import tofu  # noqa: F401  before MXNet
from tests.models.paper import PaperModel, transformer, wresnet
from tests.models.paper.by_name import MEASURED, build_model
from tests.shared.campaigns import choose_names
from tests.shared.isolation import run_cold
from tests.shared.stages import Stages
from tofu.errors import InfeasibleError
from tofu.mxnet.planning import plan_task
from tofu.planning.settings import Settings
from tofu.search.algorithms import ALGORITHMS, SEARCHES
from tofu.search.cost import evaluate
from tofu.search.solve import DEFAULT_SEARCH_SECONDS, Effort, Solution
from tofu.search.topology import Arrangement

RESNET_152 = (3, 8, 36, 3)
FAMILIES: dict[str, tuple[Callable[[int], PaperModel], Sequence[int]]] = {
    "ResNet": (lambda times: wresnet(152, 10, 8, blocks=tuple(times * count for count in RESNET_152)), (1, 2, 4, 10)),
    "Transformer": (transformer, (12, 24, 48, 96)),
}
PROVED = (
    *(f"wresnet-{layers}-{width}" for layers in (50, 101, 152) for width in (4, 6, 8, 10)),
    *(f"rnn-{layers}-{units}k" for layers in (4, 6, 8, 10) for units in (4, 6, 8)),
    *(f"transformer-{layers}" for layers in (12, 24, 96)),
)
BATCHES = {"wresnet": 8, "rnn": 128, "transformer": 16}


@click.group(help=__doc__)
def main() -> None:
    pass


def measure_stages(name: str, workers: int, search_seconds: float) -> tuple[dict[str, float], int]:
    stages = Stages()
    settings = Settings(workers, search_seconds=search_seconds, cache=False)
    partition = plan_task(MEASURED[name]().read(settings, stages), observe=stages)
    return dict(stages.seconds), partition.plan.search_bytes


def measure_algorithms(name: str, workers: int, search_seconds: float) -> dict[str, int | None]:
    problem = MEASURED[name]().read(Settings(workers)).problem
    moved: dict[str, int | None] = {}
    for algorithm in ALGORITHMS.values():
        arranged = problem.arrange(Arrangement(algorithm.list_orders(workers)[0]))
        try:
            choices = algorithm.solve(arranged, effort=Effort(search_seconds)).choices
            moved[algorithm.name] = evaluate(choices).total_bytes
        except InfeasibleError:
            moved[algorithm.name] = None
    return moved


@main.command(help="Seconds of each pass, and bytes of every algorithm.")
@click.option("--models", help="Names, separated by commas. By default, all.")
@click.option("--workers", default=8, show_default=True)
@click.option("--runs", default=5, show_default=True, help="Seconds are medians of so many runs.")
@click.option("--search-seconds", default=60.0, show_default=True, help="Limit of the exact search.")
def stages(models: str | None, workers: int, runs: int, search_seconds: float) -> None:
    for name in choose_names(models, MEASURED):
        measured = [run_cold(measure_stages, name, workers, search_seconds) for _ in range(runs)]
        table = Table("stage", "seconds", "spread", title=f"{name}, {workers} workers")
        for stage in measured[0][0]:
            seconds = [own[stage] for own, _ in measured]
            table.add_row(stage, f"{median(seconds):.3f}", f"{max(seconds) - min(seconds):.3f}")
        console = Console()
        console.print(table, f"Memory of the search: {measured[0][1] / 2**30:.1f} GiB")
        moved = run_cold(measure_algorithms, name, workers, search_seconds)
        table = Table("algorithm", "GiB per step", "over exact")
        for algorithm, count in moved.items():
            ratio = "-" if count is None else f"{count / (moved['exact'] or 1):.3f}"
            table.add_row(algorithm, "-" if count is None else f"{count / 2**30:.2f}", ratio)
        console.print(table)


def measure_family(family: str, size: int, workers: int, search_seconds: float) -> dict[str, float]:
    model = FAMILIES[family][0](size)
    started = time.process_time()
    problem = model.read(Settings(workers)).problem
    _ = problem.search_graph
    measured = {"operators": float(len(problem.graph.operators)), "reading": time.process_time() - started}
    for algorithm in SEARCHES:
        started = time.process_time()
        ALGORITHMS[algorithm].solve(problem, effort=Effort(search_seconds))
        measured[algorithm] = time.process_time() - started
    return measured


@main.command(help="Processor seconds against the number of operators, and the exponent of their growth.")
@click.option("--workers", default=8, show_default=True)
@click.option("--runs", default=3, show_default=True, help="The least seconds of so many runs count.")
@click.option("--search-seconds", default=60.0, show_default=True, help="Limit of each exact search.")
def scaling(workers: int, runs: int, search_seconds: float) -> None:
    for family, (_, sizes) in FAMILIES.items():
        rows = []
        for size in sizes:
            measured = [run_cold(measure_family, family, size, workers, search_seconds) for _ in range(runs)]
            rows.append({column: min(run[column] for run in measured) for column in measured[0]})
        columns = list(rows[0])
        table = Table("size", *columns, title=f"{family}, {workers} workers: processor seconds")
        for size, row in zip(sizes, rows, strict=True):
            table.add_row(str(size), f"{row['operators']:,.0f}", *(f"{row[column]:.3f}" for column in columns[1:]))
        logarithms = {column: np.log([row[column] for row in rows]) for column in columns}
        exponents = [np.polyfit(logarithms["operators"], logarithms[column], 1)[0] for column in columns[1:]]
        table.add_row("exponent", "", *(f"{exponent:.2f}" for exponent in exponents))
        Console().print(table)


def measure_optimality(name: str, workers: int, search_seconds: float) -> tuple[float, int, int, int]:
    """Return (seconds of exact searches, best plan's bytes, lower bound, recursive search's bytes).

    The searches try all orders of the factors.
    """
    problem = build_model(name, BATCHES[name.split("-")[0]]).read(Settings(workers)).problem
    orders = ALGORITHMS["exact"].list_orders(workers)
    arranged = [problem.arrange(Arrangement(order)) for order in orders]
    started = time.perf_counter()
    solutions = [ALGORITHMS["exact"].solve(each, effort=Effort(search_seconds / len(orders))) for each in arranged]
    seconds = time.perf_counter() - started
    recursive = [ALGORITHMS["recursive"].solve(each) for each in arranged]
    bound = min(solution.proofs[0].lower_bound or 0 for solution in solutions)
    return seconds, _find_least_bytes(solutions), bound, _find_least_bytes(recursive)


def _find_least_bytes(solutions: Sequence[Solution]) -> int:
    return min(evaluate(solution.choices).total_bytes for solution in solutions)


def round_up_percent(larger: int, smaller: int) -> float:
    return ceil((larger / max(smaller, 1) - 1) * 1e4) / 1e2


@main.command(
    help="Distance of the default plan from a proven bound, and of the recursion's plan from the default one."
)
@click.option("--models", help="Names, separated by commas. By default, all.")
@click.option("--workers", default="2,4,8,6,12,16", show_default=True)
@click.option("--search-seconds", default=DEFAULT_SEARCH_SECONDS, show_default=True)
def optimality(models: str | None, workers: str, search_seconds: float) -> None:
    for count in map(int, workers.split(",")):
        table = Table("model", "seconds", "GiB", "above bound, %", "recursion above, %", title=f"{count} workers")
        rows = []
        for name in choose_names(models, PROVED):
            seconds, moved, bound, recursive = run_cold(measure_optimality, name, count, search_seconds)
            row = seconds, moved / 2**30, round_up_percent(moved, bound), round_up_percent(recursive, moved)
            rows.append(row)
            above = "optimal" if moved == bound else f"{row[2]:g}"
            table.add_row(name, f"{seconds:.2f}", f"{row[1]:.2f}", above, f"{row[3]:g}")
        most = [max(column) for column in zip(*rows, strict=True)]
        table.add_row("largest", f"{most[0]:.2f}", "", f"{most[2]:g}", f"{most[3]:g}")
        Console().print(table)


if __name__ == "__main__":
    main()
