"""The exact search against an integer program over the same choices, solved by HiGHS.

A binary variable for each choice of each class, a fraction for each pair of choices that meet in a table; the fractions of a pair add
up to the binaries on both sides.
"""

import highspy
import pytest
from cell_model import CellModel
from random_graphs import random_graph
from test_cost import choice_roots
from test_exact import sequences

from tofu import _core

LARGEST_TABLES = 20_000  # entries of one program


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


def least_bytes(spec, factors):
    """The optimum of the integer program; None if it is too large for a test."""
    model, roots = CellModel(spec, factors), choice_roots(spec)
    domains = domains_of(spec, model, len(factors))
    tables = [(count, key, roots[o], ("tensor", t)) for count, key, o, t in model.incidences()]
    if sum(len(domains[a]) * len(domains[b]) for _, _, a, b in tables) > LARGEST_TABLES:
        return None
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


@pytest.mark.parametrize("factors", [(3, 2), (2, 2, 2)])
def test_the_integer_program_finds_nothing_better(factors):
    checked = 0
    for seed in range(9000, 9100):
        spec = random_graph(seed, largest=6)
        least = least_bytes(spec, factors)
        if least is None:
            continue
        result = _core.search_exact(spec.native(), list(factors))
        assert result.is_optimal
        assert sum(result.plan.step_bytes) == least, f"seed {seed}"
        checked += 1
        if checked == 10:
            return
    pytest.fail(f"only {checked} programs are small enough")
