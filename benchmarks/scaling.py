"""Search time against the size of the graph: wide ResNets of 152 to 1,520 layers, Transformers of 12 to 96.

    python -m benchmarks.scaling

For each family a line through the logarithms of operators and seconds is fitted; its slope is the exponent. 1 means that twice the graph
takes twice the time. Seconds are those of all processors together, the least of several runs, so that other programs disturb them little.
It ends with an error where the exact search of the ten times as deep ResNet takes longer than docs/search.md states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.models import Model, transformer, wresnet
from tofu.planning.settings import Settings
from tofu.search import Problem
from tofu.search.algorithms import ALGORITHMS, SEARCHES
from tofu.search.solve import Effort

RESNET_152 = (3, 8, 36, 3)
FAMILIES: dict[str, tuple[Callable[[int], Model], Sequence[int]]] = {
    "ResNet": (lambda times: wresnet(152, 10, 8, blocks=tuple(times * count for count in RESNET_152)), (1, 2, 4, 10)),
    "Transformer": (transformer, (12, 24, 48, 96)),
}
MOST_FOR_TEN_TIMES = 5


def fit_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of log(seconds) over log(sizes), by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def time_search(problem: Problem, algorithm: str, runs: int, search_seconds: float) -> tuple[float, str]:
    """The least seconds, and what is proved."""
    least = float("inf")
    for _ in range(runs):
        started = time.process_time()
        solution = ALGORITHMS[algorithm].solve(problem, effort=Effort(search_seconds))
        least = min(least, time.process_time() - started)
    return least, ALGORITHMS[algorithm].describe_optimality(solution)


@click.command(help=__doc__)
@click.option("--families", default=",".join(FAMILIES), show_default=True)
@click.option("--workers", default=8, show_default=True)
@click.option("--runs", default=3, show_default=True)
@click.option("--search-seconds", default=60.0, show_default=True, help="Effort of one exact search.")
def main(families: str, workers: int, runs: int, search_seconds: float) -> None:
    for family in families.split(","):
        build, sizes = FAMILIES[family]
        operators, seconds = [], {algorithm: list[float]() for algorithm in SEARCHES}
        table = Table(
            "", "operators", *(f"{a} (s)" for a in SEARCHES), "exact is", title=f"{family}, {workers} workers"
        )
        for size in sizes:
            problem = build(size).read(Settings(workers)).problem
            _ = problem.coarse
            operators.append(len(problem.graph.operators))
            for algorithm in SEARCHES:
                least, proved = time_search(problem, algorithm, runs, search_seconds)
                seconds[algorithm].append(least)
            cells = (f"{seconds[algorithm][-1]:.3f}" for algorithm in SEARCHES)
            table.add_row(f"{size}x" if family == "ResNet" else str(size), f"{operators[-1]:,}", *cells, proved)
        exponents = (f"{fit_exponent(operators, seconds[algorithm]):.2f}" for algorithm in SEARCHES)
        table.add_row("exponent", "", *exponents, "")
        Console().print(table)
        times = seconds["exact"][-1] / seconds["exact"][0]
        if sizes[-1] == 10 * sizes[0] and round(times) > MOST_FOR_TEN_TIMES:
            raise click.ClickException(
                f"{times:.1f} times the seconds for 10 times the layers, at most {MOST_FOR_TEN_TIMES} is stated"
            )


if __name__ == "__main__":
    main()
