"""The exact search against solvers of others over the same choices: HiGHS, an integer program, and toulbar2, a cost function network."""

import numpy as np
import pytest

from tests.search.cell_model import CellModel
from tests.search.random_graphs import random_graph
from tests.search.test_cost import choice_roots
from tests.search.test_exact import sequences
from tests.shared.pairwise_solvers import SOLVERS
from tofu import _core

TIME_LIMIT = 60  # seconds


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


def pairs_of(spec, factors):
    """The domains, and who meet: (their bytes by choices, key, who decides for the operator, the tensor)."""
    model, roots = CellModel(spec, factors), choice_roots(spec)
    domains = domains_of(spec, model, len(factors))
    return domains, [(count, key, roots[o], ("tensor", t)) for count, key, o, t in model.incidences()]


def count_entries(domains, pairs):
    """The size of all tables."""
    return sum(len(domains[a]) * len(domains[b]) for _, _, a, b in pairs)


def fill_tables(domains, pairs):
    """The bytes of each pair of choices of two who meet."""
    tables = {}
    for count, key, a, b in pairs:
        table = tables.setdefault((a, b), np.zeros((len(domains[a]), len(domains[b])), np.int64))
        if a == b:
            table += np.diag([count(*key, x, x) for x in domains[a]])
        else:
            table += [[count(*key, x, y) for y in domains[b]] for x in domains[a]]
    return tables


@pytest.mark.parametrize("factors", [(3, 2), (2, 2, 2)])
@pytest.mark.parametrize(("solver", "largest", "most_entries"), [("HiGHS", 6, 20_000), ("toulbar2", 12, 200_000)])
def test_other_solvers_find_nothing_better(solver, largest, most_entries, factors):
    checked = 0
    for seed in range(9000, 9100):
        spec = random_graph(seed, largest=largest)
        domains, pairs = pairs_of(spec, factors)
        if count_entries(domains, pairs) > most_entries:
            continue
        result = _core.search_exact(spec.native(), list(factors))
        assert result.is_optimal
        sizes = {who: len(choices) for who, choices in domains.items()}
        found = SOLVERS[solver](sizes, fill_tables(domains, pairs), TIME_LIMIT).optimum
        assert sum(result.plan.step_bytes) == found, f"seed {seed}"
        checked += 1
        if checked == 10:
            return
    pytest.fail(f"only {checked} graphs are small enough")
