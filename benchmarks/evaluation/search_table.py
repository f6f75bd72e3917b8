"""Table 1: the time to search for the best partition among 8 workers, with and without what makes it short, and by solvers of others.

    python -m benchmarks.evaluation.search_table

The paper's dynamic program tries all partitions of all tensors of a group of operators: its states are counted, for all three steps at once
and for one after the other, and take each what a state of the recursion takes, which is run. HiGHS (an integer program) and toulbar2 (a
cost function network) get the same coarse graph and the same costs as the exact search, and a limit; what operators write in place forbids
pairs of choices. Choices that another one can stand for are left out first. Seconds are medians, each run in a process of its own, without
reading the model. Writes docs/evaluation/search.csv.
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
from benchmarks.shared.dominance import drop_dominated
from benchmarks.shared.pairwise_solvers import FORBIDDEN, SOLVERS, Solved, Table
from benchmarks.stages import run_cold
from tofu import _core
from tofu.errors import PlanError
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
Decider = tuple[str, int]  # "operator" or "tensor", and the first of those that it decides for
Pair = tuple[Decider, Decider]


@dataclass(frozen=True)
class Searched:
    """How long one way to search takes on one model, or would (`is_counted`: by its states), and what it finds; of solvers of others, how
    many costs of pairs they get, of how many.
    """

    model: str
    method: str
    seconds: float
    is_counted: bool
    states: float
    found: str
    entries: int = 0
    all_entries: int = 0


class Decisions:
    """Who decides in a problem: classes of operators and of tensors, what they can take, and what each pair of them costs."""

    def __init__(self, problem: Problem, graph: _core.Graph) -> None:
        self.problem, self._graph = problem, graph
        self._asked: dict[tuple[object, ...], npt.NDArray[np.bool_]] = {}
        whole = problem.graph
        self.roots = [graph.choice_root(operator) for operator in range(len(whole.operators))]
        self.classes = [graph.tensor_class(tensor) for tensor in range(len(whole.tensors))]

    def list_choices(self, kind: str, number: int, factors: Sequence[int], prefix: Sequence[int] = ()) -> list[int]:
        """What one of them can take at the step after those of the prefix."""
        return list(_core.feasible_choices(self._graph, list(factors), kind, number, list(prefix)))

    @cached_property
    def domains(self) -> dict[Decider, Sequences]:
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
    def allowed(self) -> dict[Pair, npt.NDArray[np.bool_]]:
        """Of who decides for an operator and for a tensor that it writes in place: which of their choices go together."""
        found: dict[Pair, npt.NDArray[np.bool_]] = {}
        for number, operator in enumerate(self.problem.graph.operators):
            for slot in operator.mutates:
                pair = ("operator", self.roots[number]), ("tensor", self.classes[operator.inputs[slot]])
                own = self._ask(number, slot, *(self.domains[who] for who in pair))
                found[pair] = found.get(pair, True) & own
        return found

    def _ask(self, number: int, slot: int, choices: Sequences, layouts: Sequences) -> npt.NDArray[np.bool_]:
        """What the core says of a graph of this operator and this tensor alone."""
        access, tensor = self.problem.accesses[number], self.problem.graph.operators[number].inputs[slot]
        key = id(access), slot, self.problem.graph.tensors[tensor].shape, tuple(choices), tuple(layouts)
        if key not in self._asked:
            alone = _core.Graph()
            alone.add_tensor(self.problem.graph.tensors[tensor].shape, 1, True, 0)
            alone.add_operator(access.extents, [(0, access.inputs[slot].rows, [], 0.0, True)], [], 0, 0, 0)
            self._asked[key] = np.array(
                [[_is_possible(alone, self.problem.factors, one, other) for other in layouts] for one in choices]
            )
        return self._asked[key]

    @cached_property
    def tables(self) -> dict[Pair, Table]:
        """The bytes of each pair of choices of two who meet, `FORBIDDEN` where they do not go together.

        Who decides for operators takes its i-th choice and all others their j-th, for all i and j, so that one evaluation fills an entry
        of every table; then weights take the i-th. An update takes the choice of its weight. Where two do not go together, the tensor
        takes another choice; in a last turn, the operator does.
        """
        found: dict[Pair, Table] = {}
        weights = {("tensor", self.classes[weight]) for weight, _ in self.problem.graph.updates}
        operators = {who for who in self.domains if who[0] == "operator"}
        written = {tensor for _, tensor in self.allowed}
        for first, others, yields in (
            (operators, set(self.domains) - operators, 1),
            (weights, set(self.domains) - weights, 1),
            (operators, written, 0),
        ):
            rows, columns = (max((len(self.domains[who]) for who in some), default=0) for some in (first, others))
            for i in range(rows):
                for j in range(columns):
                    taken = {who: (i if who in first else j) % len(own) for who, own in self.domains.items()}
                    self._reconcile(taken, yields)
                    self._fill(found, taken, first is weights)
        for pair, goes in self.allowed.items():
            found.setdefault(pair, np.zeros(goes.shape, np.int64))[~goes] = FORBIDDEN
        return found

    def _reconcile(self, taken: dict[Decider, int], yields: int) -> None:
        """Who decides for operators (`yields`: 0) or for tensors (1) takes a choice that goes with those of the others."""
        goes: dict[Decider, npt.NDArray[np.bool_]] = {}
        for pair, allowed in self.allowed.items():
            own = allowed[:, taken[pair[1]]] if yields == 0 else allowed[taken[pair[0]]]
            goes[pair[yields]] = goes.get(pair[yields], True) & own
        for who, possible in goes.items():
            if not possible.any():
                raise PlanError(
                    f"{self._name(who)} has no choice that goes with all that is written in place, so the costs of pairs "
                    "cannot be told apart. Take a model in which it writes tensors of one shape."
                )
            if not possible[taken[who]]:
                taken[who] = int(np.argmax(possible))

    def _name(self, who: Decider) -> str:
        kind, number = who
        named = self.problem.graph.operators if kind == "operator" else self.problem.graph.tensors
        return f"{kind} {named[number].name}"

    def _fill(self, found: dict[Pair, Table], taken: dict[Decider, int], is_of_updates: bool) -> None:
        operators = len(self.problem.graph.operators)
        sums: dict[Pair, int] = {}
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

    @cached_property
    def reduced(self) -> dict[Pair, Table]:
        """The tables without choices that another one can stand for."""
        return drop_dominated({who: len(own) for who, own in self.domains.items()}, self.tables)

    def choose(self, taken: dict[tuple[str, int], int]) -> Choices:
        """The choices in which each takes the one of that number."""
        tensors = np.array([self.domains["tensor", one][taken["tensor", one]] for one in self.classes], np.int32)
        operators = [self.domains["operator", one][taken["operator", one]] for one in self.roots]
        updates = [tensors[weight] for weight, _ in self.problem.graph.updates]
        return Choices(np.array([*operators, *updates], np.int32), tensors)


def _is_possible(graph: _core.Graph, factors: Sequence[int], choice: Sequence[int], layout: Sequence[int]) -> bool:
    try:
        _core.evaluate(graph, list(factors), np.array([choice], np.int32), np.array([layout], np.int32))
    except ValueError:
        return False
    return True


def _read(name: str) -> Problem:
    return build_model(name, MODELS[name]).read(Settings(WORKERS, cache=False)).problem


def time_search(name: str, algorithm: str) -> tuple[float, int]:
    """Seconds of a search, the coarse graph and all cost tables among them, and the bytes that its plan moves."""
    problem = _read(name)
    started = time.perf_counter()
    found = ALGORITHMS[algorithm].solve(problem, effort=Effort(60)).choices
    return time.perf_counter() - started, evaluate(problem, found).total_bytes


def time_solver(solver: str, tables: dict[Pair, Table], limit: float) -> tuple[float, Solved]:
    """Seconds of another solver, without making its tables, and what it comes to."""
    sizes = {who: size for pair, table in tables.items() for who, size in zip(pair, table.shape, strict=True)}
    started = time.perf_counter()
    solved = SOLVERS[solver](sizes, tables, limit)
    return time.perf_counter() - started, solved


def time_solvers(name: str, limit: float = LIMIT) -> Iterator[Searched]:
    """A row for each solver of others, whose tables have so many entries, of so many that there are with dominated choices."""
    problem = _read(name)
    decisions = Decisions(problem, problem.coarse)
    entries = [sum(table.size for table in tables.values()) for tables in (decisions.reduced, decisions.tables)]
    for solver in SOLVERS:
        seconds, solved = run_cold(time_solver, solver, decisions.reduced, limit)
        yield Searched(name, solver, seconds, False, 0.0, _describe(solved), *entries)


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
