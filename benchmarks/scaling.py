"""Search time against the size of the graph: wide ResNets of 152 to 1,520 layers, Transformers of 12 to 96.

    python -m benchmarks.scaling

For each family a line through the logarithms of operators and seconds is fitted; its slope is the exponent. 1 means that twice the graph
takes twice the time. Seconds are those of all processors together, the least of several runs, each in a process of its own, so that other
programs disturb them little. "reading" is from the symbol to the coarse problem.
It ends with an error where the exact search of the ten times as deep ResNet takes longer than docs/search.md states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from tests.models.paper import Model, transformer, wresnet
from tests.shared.stages import run_cold
from tofu.planning.settings import Settings
from tofu.search.algorithms import ALGORITHMS, SEARCHES
from tofu.search.cost import price
from tofu.search.solve import Effort

RESNET_152 = (3, 8, 36, 3)
FAMILIES: dict[str, tuple[Callable[[int], Model], Sequence[int]]] = {
    "ResNet": (lambda times: wresnet(152, 10, 8, blocks=tuple(times * count for count in RESNET_152)), (1, 2, 4, 10)),
    "Transformer": (transformer, (12, 24, 48, 96)),
}
READING = "reading"
STAGES = (READING, *SEARCHES)
MOST_FOR_TEN_TIMES = 5


def fit_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of log(seconds) over log(sizes), by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@dataclass(frozen=True)
class Run:
    """Processor seconds of reading a model (from the symbol to the coarse problem, lowering among them) and of each search."""

    operators: int
    seconds: dict[str, float]
    proved: str


def run_once(family: str, size: int, workers: int, search_seconds: float) -> Run:
    """One model."""
    model = FAMILIES[family][0](size)
    started = time.process_time()
    problem = model.read(Settings(workers)).problem
    _ = problem.coarse
    seconds, proved = {READING: time.process_time() - started}, ""
    for algorithm in SEARCHES:
        started = time.process_time()
        solution = ALGORITHMS[algorithm].solve(problem, effort=Effort(search_seconds))
        seconds[algorithm] = time.process_time() - started
        proved = ALGORITHMS[algorithm].describe_optimality(solution, price(solution.choices))
    return Run(len(problem.graph.operators), seconds, proved)


def measure(family: str, size: int, workers: int, search_seconds: float, runs: int) -> Run:
    """The least of several runs, each in a process of its own."""
    found = [run_cold(run_once, family, size, workers, search_seconds) for _ in range(runs)]
    least = {stage: min(run.seconds[stage] for run in found) for stage in STAGES}
    return Run(found[0].operators, least, found[0].proved)


@click.command(help=__doc__)
@click.option("--families", default=",".join(FAMILIES), show_default=True)
@click.option("--workers", default=8, show_default=True)
@click.option("--runs", default=3, show_default=True)
@click.option("--search-seconds", default=60.0, show_default=True, help="Effort of one exact search.")
def main(families: str, workers: int, runs: int, search_seconds: float) -> None:
    for family in families.split(","):
        _, sizes = FAMILIES[family]
        table = Table("", "operators", *(f"{a} (s)" for a in STAGES), "exact is", title=f"{family}, {workers} workers")
        found = []
        for size in sizes:
            run = measure(family, size, workers, search_seconds, runs)
            cells = (f"{run.seconds[stage]:.3f}" for stage in STAGES)
            table.add_row(f"{size}x" if family == "ResNet" else str(size), f"{run.operators:,}", *cells, run.proved)
            found.append(run)
        operators = [run.operators for run in found]
        exponents = (f"{fit_exponent(operators, [run.seconds[stage] for run in found]):.2f}" for stage in STAGES)
        table.add_row("exponent", "", *exponents, "")
        Console().print(table)
        times = found[-1].seconds["exact"] / found[0].seconds["exact"]
        if sizes[-1] == 10 * sizes[0] and round(times) > MOST_FOR_TEN_TIMES:
            raise click.ClickException(
                f"{times:.1f} times the seconds for 10 times the layers, at most {MOST_FOR_TEN_TIMES} is stated"
            )


if __name__ == "__main__":
    main()
