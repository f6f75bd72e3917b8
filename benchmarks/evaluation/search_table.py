"""Table 1: the time to search for the best partition among 8 workers, with and without what makes it short, and by solvers of others.

    python -m benchmarks.evaluation.search_table

The paper's dynamic program tries all partitions of all tensors of a group of operators: its states are counted, for all three steps at once
and for one after the other, and take each what a state of the recursion takes, which is run. HiGHS (an integer program) and toulbar2 (a
cost function network) get the same coarse graph and the same costs as the exact search, and a limit; what operators write in place forbids
pairs of choices. Choices that another one can stand for are left out first. Seconds are medians, each run in a process of its own, without
reading the model. Writes docs/evaluation/search.csv.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.progress import track

from benchmarks.evaluation.decisions import Decisions, Pair
from benchmarks.evaluation.tables import write_table
from tests.models.paper.by_name import build_model
from tests.shared.commits import name_tree, note_commit
from tests.shared.pairwise_solvers import SOLVERS, Solved, Table
from tests.shared.stages import run_cold
from tofu.planning.settings import Settings
from tofu.search import Problem
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import evaluate
from tofu.search.solve import Effort

MODELS = {"wresnet-152-10": 8, "rnn-10-8k": 512}
ALL_AT_ONCE, RECURSION = "DP with coarsening, all steps at once", "recursion"
PAPER = {
    ("wresnet-152-10", ALL_AT_ONCE): "8 hours",
    ("rnn-10-8k", ALL_AT_ONCE): "> 24 hours",
    ("wresnet-152-10", RECURSION): "8.3 s",
    ("rnn-10-8k", RECURSION): "66.6 s",
}
WORKERS = 8
RUNS = 5
LIMIT = 300  # seconds of a solver


@dataclass(frozen=True)
class Searched:
    """How long one way to search takes on one model, or would (`is_counted`: by its states), and what it finds; of solvers of others, how
    many costs of pairs they get, of how many, and the bytes that their process held at most.
    """

    model: str
    method: str
    seconds: float
    is_counted: bool
    states: float
    found: str
    entries: int = 0
    all_entries: int = 0
    held_bytes: int = 0


def _read(name: str) -> Problem:
    return build_model(name, MODELS[name]).read(Settings(WORKERS, cache=False)).problem


def time_search(name: str, algorithm: str) -> tuple[float, int]:
    """Seconds of a search, the coarse graph and all cost tables among them, and the bytes that its plan moves."""
    problem = _read(name)
    started = time.perf_counter()
    found = ALGORITHMS[algorithm].solve(problem, effort=Effort(60)).choices
    return time.perf_counter() - started, evaluate(found).total_bytes


def time_solver(solver: str, tables: dict[Pair, Table], limit: float) -> tuple[float, Solved, int]:
    """Seconds of another solver, without making its tables, what it comes to, and the most bytes that this process has held."""
    sizes = {who: size for pair, table in tables.items() for who, size in zip(pair, table.shape, strict=True)}
    started = time.perf_counter()
    solved = SOLVERS[solver](sizes, tables, limit)
    seconds = time.perf_counter() - started
    return seconds, solved, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def time_solvers(name: str, limit: float = LIMIT) -> Iterator[Searched]:
    """A row for each solver of others, whose tables have so many entries, of so many that there are with dominated choices."""
    problem = _read(name)
    decisions = Decisions(problem, problem.coarse)
    entries = [sum(table.size for table in tables.values()) for tables in (decisions.reduced, decisions.tables)]
    for solver in SOLVERS:
        seconds, solved, held = run_cold(time_solver, solver, decisions.reduced, limit)
        yield Searched(name, solver, seconds, False, 0.0, _describe(solved), *entries, held)


def _describe(solved: Solved) -> str:
    if solved.optimum is not None:
        return f"{solved.optimum / 2**30:.2f} GiB"
    found = "nothing found" if solved.found is None else f"{solved.found / 2**30:.2f} GiB found"
    return f"not ended: {found}, at least {solved.bound / 2**30:.2f} GiB proved"


def count(name: str) -> tuple[float, float]:
    """The states of the dynamic program over coarse groups: for all steps at once, and step by step."""
    problem = _read(name)
    decisions, steps = Decisions(problem, problem.coarse), len(problem.factors)
    return decisions.count_states(steps), steps * decisions.count_states(1)


def measure(name: str, runs: int) -> Iterator[Searched]:
    """The column of one model."""
    at_once, by_step = run_cold(count, name)
    found = {
        algorithm: [run_cold(time_search, name, algorithm) for _ in range(runs)] for algorithm in ("recursive", "exact")
    }
    seconds = {algorithm: median(one for one, _ in own) for algorithm, own in found.items()}
    yield Searched(name, ALL_AT_ONCE, at_once * seconds["recursive"] / by_step, True, at_once, "")
    for method, algorithm in ((RECURSION, "recursive"), ("exact search", "exact")):
        moved = f"{found[algorithm][-1][1] / 2**30:.2f} GiB"
        yield Searched(name, method, seconds[algorithm], False, by_step if method == RECURSION else 0.0, moved)
    yield from time_solvers(name)


@click.command(help=__doc__)
@click.option("--models", default=",".join(MODELS), show_default=True)
@click.option("--runs", default=RUNS, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/evaluation"), show_default=True)
def main(models: str, runs: int, output: Path) -> None:
    tree, names = name_tree(), track(models.split(","), description="Table 1", console=Console(stderr=True))
    rows = [row for name in names for row in measure(name, runs)]
    output.mkdir(parents=True, exist_ok=True)
    write_table(output / "search.csv", rows)
    note_commit(output, "Table 1", tree)
    for row in rows:
        click.echo(
            f"{row.model}: {row.method}: {row.seconds:.3g} s{' by its states' if row.is_counted else ''} {row.found}"
        )


if __name__ == "__main__":
    main()
