"""The exact search against solvers of others over the same choices: HiGHS, an integer program, and toulbar2, a cost function network.

The program has a binary variable for each choice of each class and a fraction for each pair of choices that meet in a table; the fractions
of a pair add up to the binaries on both sides. The network has the tables as they are.
"""

import time

import highspy
import pytest
from pytoulbar2 import CFN

from tests.search.cell_model import CellModel
from tests.search.random_graphs import random_graph
from tests.search.test_cost import choice_roots
from tests.search.test_exact import sequences
from tofu import _core

TIME_LIMIT = 60  # seconds; toulbar2 does not tell that it stopped there


def domains_of(spec, model, steps):
    """Everybody who decides, and all sequences that they can take."""
    domains = {}
    for kind, i in {*choice_roots(spec), *(("tensor", t) for t in range(len(spec.tensors)))}:
        subject, choices = (
            (spec.operators[i], model.operator_choices)
            if kind == "operator"
            else (spec.tensors[i], model.tensor_choices)
        )
        domains[kind, i] = sequences(lambda history, s=subject, c=choices: c(s, history), steps)
    return domains


def tables_of(spec, factors):
    """The domains, and the bytes of each pair of choices: (count, key, who decides for the operator, the tensor)."""
    model, roots = CellModel(spec, factors), choice_roots(spec)
    domains = domains_of(spec, model, len(factors))
    return domains, [(count, key, roots[o], ("tensor", t)) for count, key, o, t in model.incidences()]


def count_entries(domains, tables):
    """The size of all tables."""
    return sum(len(domains[a]) * len(domains[b]) for _, _, a, b in tables)


def solve_program(domains, tables):
    """The optimum of the integer program."""
    solver = highspy.Highs()
    solver.silent()
    taken = {who: [solver.addBinary() for _ in choices] for who, choices in domains.items()}
    for binaries in taken.values():
        solver.addConstr(solver.qsum(binaries) == 1)
    costs = []
    for count, key, a, b in tables:
        if a == b:
            costs += [count(*key, x, x) * binary for x, binary in zip(domains[a], taken[a], strict=True)]
            continue
        both = [[solver.addVariable(0, 1) for _ in domains[b]] for _ in domains[a]]
        for row, binary in zip(both, taken[a], strict=True):
            solver.addConstr(solver.qsum(row) == binary)
        for column, binary in zip(zip(*both, strict=True), taken[b], strict=True):
            solver.addConstr(solver.qsum(column) == binary)
        costs += [count(*key, x, y) * both[i][j] for i, x in enumerate(domains[a]) for j, y in enumerate(domains[b])]
    solver.minimize(solver.qsum(costs))
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return round(solver.getObjectiveValue())


def solve_network(domains, tables):
    """The optimum of the cost function network."""
    network = CFN()
    place = {who: network.AddVariable(f"{who[0]}{who[1]}", range(len(choices))) for who, choices in domains.items()}
    for count, key, a, b in tables:
        if a == b:
            network.AddFunction([place[a]], [count(*key, x, x) for x in domains[a]])
        else:
            network.AddFunction([place[a], place[b]], [count(*key, x, y) for x in domains[a] for y in domains[b]])
    started = time.process_time()
    _, least, _ = network.Solve(timeLimit=TIME_LIMIT)
    assert time.process_time() - started < TIME_LIMIT / 2, "toulbar2 may have stopped before its proof"
    return round(least)


@pytest.mark.parametrize("factors", [(3, 2), (2, 2, 2)])
@pytest.mark.parametrize(
    ("solve", "largest", "most_entries"), [(solve_program, 6, 20_000), (solve_network, 12, 200_000)]
)
def test_other_solvers_find_nothing_better(solve, largest, most_entries, factors):
    checked = 0
    for seed in range(9000, 9100):
        spec = random_graph(seed, largest=largest)
        domains, tables = tables_of(spec, factors)
        if count_entries(domains, tables) > most_entries:
            continue
        result = _core.search_exact(spec.native(), list(factors))
        assert result.is_optimal
        assert sum(result.plan.step_bytes) == solve(domains, tables), f"seed {seed}"
        checked += 1
        if checked == 10:
            return
    pytest.fail(f"only {checked} graphs are small enough")
