"""The exact search compared with HiGHS and toulbar2 over the same choices."""

import numpy as np
import pytest

from tests.search.cell_model import CellModel
from tests.search.plans import list_decisions
from tests.search.random_graphs import random_graph
from tests.shared.pairwise_solvers import SOLVERS
from tofu import _core

TIME_LIMIT = 60  # seconds


def list_pairs(spec, factors):
    """Return the domains and the pairs of deciders: count function, its arguments, operator's decider, tensor."""
    model = CellModel(spec, factors)
    roots, deciders, domains = list_decisions(model, spec)
    pairs = [(count, key, roots[o], ("tensor", t)) for count, key, o, t in model.list_incidences()]
    return dict(zip(deciders, domains, strict=True)), pairs


def count_entries(domains, pairs):
    return sum(len(domains[a]) * len(domains[b]) for _, _, a, b in pairs)


def fill_tables(domains, pairs):
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
def test_other_solvers_find_no_better_plan(solver, largest, most_entries, factors):
    checked = 0
    for seed in range(9000, 9100):
        spec = random_graph(seed, largest=largest)
        domains, pairs = list_pairs(spec, factors)
        if count_entries(domains, pairs) > most_entries:
            continue
        result = _core.search_exact(spec.native(), list(factors))
        assert result.is_optimal
        sizes = {who: len(choices) for who, choices in domains.items()}
        found = SOLVERS[solver](sizes, fill_tables(domains, pairs), TIME_LIMIT).optimum
        assert sum(result.plan.round_bytes) == found, f"seed {seed}"
        checked += 1
        if checked == 5:
            return
    pytest.fail(f"only {checked} graphs are small enough")
