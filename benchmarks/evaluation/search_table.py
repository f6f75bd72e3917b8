"""Table 1: the time to search for the best partition among 8 workers, with and without what makes it short, and by solvers of others.

    python -m benchmarks.evaluation.search_table

The paper's dynamic program tries all partitions of all tensors of a group of operators: its states are counted, for all three steps at once
and for one after the other, and take each what a state of the recursion takes, which is run. HiGHS (an integer program) and toulbar2 (a
cost function network) get the same coarse graph and the same costs as
the exact search, and a limit; not of models that write states in place, which forbids pairs of choices. Seconds are medians, each run in a
process of its own, without reading the model. Writes docs/evaluation/search.csv.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from statistics import median

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track

from benchmarks.evaluation.tables import write_table
from benchmarks.models.by_name import build_model
from benchmarks.shared.commits import name_tree, note_commit
from benchmarks.shared.pairwise_solvers import SOLVERS
from benchmarks.stages import run_cold
from tofu import _core
from tofu.planning.settings import Settings
from tofu.search import Choices, Problem
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

Sequences = list[tuple[int, ...]]
Table = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Searched:
    """How long one way to search takes on one model, or would (`is_counted`: by its states), and what it finds."""

    model: str
    method: str
    seconds: float
    is_counted: bool
    states: float
    found: str


class Decisions:
    """Who decides in a problem: classes of operators and of tensors, what they can take, and what each pair of them costs."""

    def __init__(self, problem: Problem, graph: _core.Graph) -> None:
        self.problem, self._graph = problem, graph
        whole = problem.graph
        self.roots = [graph.choice_root(operator) for operator in range(len(whole.operators))]
        self.classes = [graph.tensor_class(tensor) for tensor in range(len(whole.tensors))]

    def list_choices(self, kind: str, number: int, factors: Sequence[int], prefix: Sequence[int] = ()) -> list[int]:
        """What one of them can take at the step after those of the prefix."""
        return list(_core.feasible_choices(self._graph, list(factors), kind, number, list(prefix)))

    @cached_property
    def domains(self) -> dict[tuple[str, int], Sequences]:
        """All sequences over the steps."""
        everybody = [("operator", root) for root in set(self.roots)] + [("tensor", one) for one in set(self.classes)]
        return {(kind, number): self._list_sequences(kind, number) for kind, number in everybody}

    def _list_sequences(self, kind: str, number: int) -> Sequences:
        factors = self.problem.factors
        found: Sequences = [()]
        for _ in factors:
            found = [
                (*prefix, choice) for prefix in found for choice in self.list_choices(kind, number, factors, prefix)
            ]
        return found

    def count_states(self, steps: int) -> float:
        """The partitions of all tensors of a group of operators, of all groups: a forward operator, its gradients, and what they touch.

        Of the same dimensions cut in another order, one counts.
        """
        graph = self.problem.graph
        touched: dict[int, set[int]] = {}
        for number, operator in enumerate(graph.operators):
            group = self.roots[number if operator.forward is None else operator.forward]
            tensors = {self.classes[tensor] for tensor in (*operator.inputs, *operator.outputs)}
            touched.setdefault(group, set()).update(tensors)
        sizes = {one: len({tuple(sorted(s[:steps])) for s in self.domains["tensor", one]}) for one in set(self.classes)}
        return sum(prod(float(sizes[one]) for one in tensors) for tensors in touched.values())

    @cached_property
    def tables(self) -> dict[tuple[tuple[str, int], tuple[str, int]], Table]:
        """The bytes of each pair of choices of two who meet.

        Who decides for operators takes its i-th choice and all others their j-th, for all i and j, so that one evaluation fills an entry
        of every table; then weights take the i-th. An update takes the choice of its weight.
        """
        found: dict[tuple[tuple[str, int], tuple[str, int]], Table] = {}
        graph = self.problem.graph
        weights = {("tensor", self.classes[weight]) for weight, _ in graph.updates}
        operators = {who for who in self.domains if who[0] == "operator"}
        for first in (operators, weights):
            rows = max((len(self.domains[who]) for who in first), default=0)
            columns = max(len(self.domains[who]) for who in self.domains if who not in first)
            for i in range(rows):
                for j in range(columns):
                    taken = {who: (i if who in first else j) % len(own) for who, own in self.domains.items()}
                    self._fill(found, taken, first is weights)
        return found

    def _fill(
        self,
        found: dict[tuple[tuple[str, int], tuple[str, int]], Table],
        taken: dict[tuple[str, int], int],
        is_of_updates: bool,
    ) -> None:
        operators = len(self.problem.graph.operators)
        sums: dict[tuple[tuple[str, int], tuple[str, int]], int] = {}
        for owner, tensor, _, count, _ in evaluate(self.problem, self.choose(taken)).items:
            if (owner >= operators) == is_of_updates:
                a = (
                    ("tensor", self.classes[owner - operators])  # an update is its weight's
                    if is_of_updates
                    else ("operator", self.roots[owner])
                )
                pair = a, ("tensor", self.classes[tensor])
                sums[pair] = sums.get(pair, 0) + count
        for (a, b), count in sums.items():
            table = found.setdefault((a, b), np.zeros((len(self.domains[a]), len(self.domains[b])), np.int64))
            table[taken[a], taken[b]] = count

    def solve(self, solver: str, seconds: float) -> int | None:
        """The least bytes by a solver of others, or None where it has not ended in time."""
        sizes = {who: len(own) for who, own in self.domains.items()}
        return SOLVERS[solver](sizes, self.tables, seconds)

    def choose(self, taken: dict[tuple[str, int], int]) -> Choices:
        """The choices in which each takes the one of that number."""
        tensors = np.array([self.domains["tensor", one][taken["tensor", one]] for one in self.classes], np.int32)
        operators = [self.domains["operator", one][taken["operator", one]] for one in self.roots]
        updates = [tensors[weight] for weight, _ in self.problem.graph.updates]
        return Choices(np.array([*operators, *updates], np.int32), tensors)


def _read(name: str) -> Problem:
    return build_model(name, MODELS[name]).read(Settings(WORKERS, cache=False)).problem


def time_search(name: str, algorithm: str) -> tuple[float, int]:
    """Seconds of a search, the coarse graph and all cost tables among them, and the bytes that its plan moves."""
    problem = _read(name)
    started = time.perf_counter()
    found = ALGORITHMS[algorithm].solve(problem, effort=Effort(60)).choices
    return time.perf_counter() - started, evaluate(problem, found).total_bytes


def time_solver(name: str, solver: str) -> tuple[float, int | None]:
    """Seconds of another solver, without making its tables, and the least bytes, if it proves them."""
    problem = _read(name)
    decisions = Decisions(problem, problem.coarse)
    assert decisions.tables
    started = time.perf_counter()
    found = decisions.solve(solver, LIMIT)
    return time.perf_counter() - started, found


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
    if _read(name).graph.written_in_place:
        return
    for solver in SOLVERS:
        taken, least = run_cold(time_solver, name, solver)
        yield Searched(name, solver, taken, False, 0.0, f"{least / 2**30:.2f} GiB" if least else "not ended")


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
