"""Table 1: the time to search for the best partition among 8 workers.

\b
    python -m benchmarks.evaluation.search_table

The paper's dynamic program tries all partitions of all tensors of a group of operators. Here, its states are only
counted, for all three rounds at once and for one round after the other. The time of a state is taken from Tofu's
recursive search. Seconds are medians of runs in separate processes, without reading the model. Writes
docs/evaluation/search.csv.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.progress import track

from benchmarks.evaluation.tables import write_commit, write_table
from tests.models.paper.by_name import build_model
from tests.shared.campaigns import choose_names
from tests.shared.commits import name_tree
from tests.shared.isolation import run_cold
from tofu import _core
from tofu.planning.settings import Settings
from tofu.search import Problem
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import evaluate
from tofu.search.solve import Effort

TABLE = "search.csv"
MODELS = {"wresnet-152-10": 8, "rnn-10-8k": 512}
ALL_AT_ONCE, RECURSION = "DP with coarsening, all rounds at once", "recursion"
PAPER = {
    ("wresnet-152-10", ALL_AT_ONCE): "8 hours",
    ("rnn-10-8k", ALL_AT_ONCE): "> 24 hours",
    ("wresnet-152-10", RECURSION): "8.3 s",
    ("rnn-10-8k", RECURSION): "66.6 s",
}
WORKERS = 8
RUNS = 5


@dataclass(frozen=True)
class SearchTime:
    """Time of one search on one model. If `is_counted` is True, it is estimated from the number of states."""

    model: str
    method: str
    seconds: float
    is_counted: bool
    states: float
    plan: str


def _read(name: str) -> Problem:
    return build_model(name, MODELS[name]).read(Settings(WORKERS, cache=False)).problem


def time_search(name: str, algorithm: str) -> tuple[float, int]:
    """Return the seconds of a search (with coarsening and cost tables), and the bytes that its plan moves."""
    problem = _read(name)
    started = time.perf_counter()
    choices = ALGORITHMS[algorithm].solve(problem, effort=Effort(60)).choices
    return time.perf_counter() - started, evaluate(choices).total_bytes


def count_states(name: str) -> tuple[float, float]:
    """Return the number of states of the paper's dynamic program: for all rounds at once, and round by round.

    The states of a group (a forward operator, its gradients, and their tensors) are the partitions of these tensors.
    Orders of the same splits count once.
    """
    problem = _read(name)
    search_graph, graph, factors = problem.search_graph, problem.graph, problem.factors
    groups: dict[int, set[int]] = {}
    for number, operator in enumerate(graph.operators):
        group = search_graph.choice_root(number if operator.forward is None else operator.forward)
        tensors = {search_graph.tensor_class(tensor) for tensor in (*operator.inputs, *operator.outputs)}
        groups.setdefault(group, set()).update(tensors)
    layouts = {tensor: list_layouts(search_graph, tensor, factors) for tensor in set().union(*groups.values())}

    def count(rounds: int) -> float:
        sizes = {tensor: len({tuple(sorted(layout[:rounds])) for layout in own}) for tensor, own in layouts.items()}
        return sum(prod(float(sizes[tensor]) for tensor in tensors) for tensors in groups.values())

    return count(len(factors)), len(factors) * count(1)


def list_layouts(search_graph: _core.Graph, tensor: int, factors: Sequence[int]) -> list[tuple[int, ...]]:
    layouts: list[tuple[int, ...]] = [()]
    for _ in factors:
        layouts = [
            (*prefix, choice)
            for prefix in layouts
            for choice in _core.feasible_choices(search_graph, list(factors), "tensor", tensor, list(prefix))
        ]
    return layouts


def measure(name: str, runs: int) -> Iterator[SearchTime]:
    at_once, by_round = run_cold(count_states, name)
    results = {
        algorithm: [run_cold(time_search, name, algorithm) for _ in range(runs)] for algorithm in ("recursive", "exact")
    }
    seconds = {algorithm: median(each for each, _ in own) for algorithm, own in results.items()}
    yield SearchTime(name, ALL_AT_ONCE, at_once * seconds["recursive"] / by_round, True, at_once, "")
    for method, algorithm in ((RECURSION, "recursive"), ("exact search", "exact")):
        plan = f"{results[algorithm][-1][1] / 2**30:.2f} GiB"
        states = by_round if method == RECURSION else 0.0
        yield SearchTime(name, method, seconds[algorithm], False, states, plan)


@click.command(help=__doc__)
@click.option("--models", help="Names, separated by commas. By default, all.")
@click.option("--runs", default=RUNS, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/evaluation"), show_default=True)
def main(models: str | None, runs: int, output: Path) -> None:
    commit, names = (
        name_tree(),
        track(choose_names(models, MODELS), description="Table 1", console=Console(stderr=True)),
    )
    rows = [row for name in names for row in measure(name, runs)]
    output.mkdir(parents=True, exist_ok=True)
    write_table(output / TABLE, rows)
    write_commit(output, "Table 1", commit)
    for row in rows:
        estimate = " (estimated)" if row.is_counted else ""
        click.echo(f"{row.model}: {row.method}: {row.seconds:.3g} s{estimate} {row.plan}")


if __name__ == "__main__":
    main()
