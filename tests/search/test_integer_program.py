"""The exact search compared with toulbar2, a solver of cost function networks, over the same choices."""

from math import ceil

import numpy as np
import pytest
from pytoulbar2 import CFN

from tests.search.plans import count_pairs
from tests.search.random_graphs import random_graph
from tofu import _core

TIME_LIMIT = 60  # seconds
MOST_ENTRIES = 200_000


def find_optimum(domains, tables):
    network = CFN()
    place = {who: network.AddVariable(f"v{n}", range(len(choices))) for n, (who, choices) in enumerate(domains.items())}
    for (a, b), table in tables.items():
        costs = np.diagonal(table) if a == b else table
        network.AddFunction([place[a]] if a == b else [place[a], place[b]], costs.astype(np.float64).ravel().tolist())
    solved = network.Solve(timeLimit=TIME_LIMIT)
    assert ceil(network.GetDDualBound() - 1e-6) >= round(solved[1])
    return round(solved[1])


@pytest.mark.parametrize("factors", [(3, 2), (2, 2, 2)])
def test_another_solver_finds_no_better_plan(factors):
    checked = 0
    for seed in range(9000, 9100):
        spec = random_graph(seed, largest=12)
        counted = count_pairs(spec, factors, MOST_ENTRIES)
        if counted is None:
            continue
        result = _core.search_exact(spec.native(), list(factors))
        assert result.is_optimal
        assert sum(result.plan.round_bytes) == find_optimum(*counted), f"seed {seed}"
        checked += 1
        if checked == 10:
            return
    pytest.fail(f"only {checked} graphs are small enough")
