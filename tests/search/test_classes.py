"""Searches for many workers: bounds over classes of choices hold, and coarse grids yield valid plans."""

import random

import pytest

from tests.search.random_graphs import GraphSpec, elementwise, entangled_graph, matmul, random_graph
from tofu import _core

GRIDS = [(2, 2), (3, 2), (2, 2, 2), (2, 3, 2), (4, 2), (4, 4), (2, 2, 2, 2)]
ONLY_FINE = 2**31 - 1
EFFORTS = ({}, {"max_table_entries": 1, "time_budget_seconds": 0.5}, {"time_budget_seconds": 0.01})


def draw_search(seed):
    """Return a graph and the arguments of a search, with prices and latencies in some cases."""
    rng = random.Random(seed)
    factors = rng.choice(GRIDS)
    is_entangled = rng.random() < 0.3
    spec = entangled_graph(seed, 5, (4, 8)) if is_entangled else random_graph(seed, largest=rng.choice([4, 6, 8, 16]))
    spec.shares_regions, spec.stages_small_sums, spec.relays = (rng.random() < 0.5 for _ in range(3))
    if rng.random() < 0.4:
        spec.repeats = True
        for tensor in spec.tensors:
            tensor.replicable = True
    costs = {}
    if rng.random() < 0.6:
        prices = [rng.choice([1.0, 2.5, 7.0, 0.3]) for _ in factors]
        costs["prices"] = prices if rng.random() < 0.5 else prices[:1] * len(factors)
        costs["latencies"] = [rng.choice([0.0, 5.0, 100.0]) for _ in factors]
    return spec.native(), list(factors), costs


@pytest.mark.parametrize("block", range(2))
def test_no_bound_exceeds_the_optimum(block):
    close = 0
    for seed in range(block, 240, 4):
        graph, factors, costs = draw_search(seed)
        best = _core.search_exact(graph, factors, max_fine_rounds=ONLY_FINE, **costs)
        assert best.is_optimal
        for effort in EFFORTS:
            bounds = []
            found = _core.search_exact(
                graph,
                factors,
                max_fine_rounds=0,
                progress=lambda stage, _, bound, bounds=bounds: bounds.append((stage, bound)),
                **costs,
                **effort,
            )
            cost = sum(found.plan.round_bytes)
            highest = max(found.lower_bound, *(bound for _, bound in bounds))
            assert highest <= best.lower_bound <= cost, f"seed {seed}"
            assert not found.is_optimal or cost == best.lower_bound, f"seed {seed}"
            of_classes = [bound for stage, bound in bounds if stage in ("tables", "two rounds", "coarse grids")]
            close += max(of_classes, default=0) >= 0.4 * best.lower_bound > 0
    assert close >= 10


def make_chain(layers, width=4096, batch=2048):
    """Return products with weights of alternating shapes, and element-wise operators between them."""
    spec = GraphSpec()
    value, weights = spec.tensor((batch, width)), []
    for layer in range(layers):
        weights.append(spec.tensor((4 * width, width) if layer % 2 == 0 else (width, 4 * width)))
        value = elementwise(spec, [matmul(spec, value, weights[-1])])
    return spec.native(), weights


@pytest.mark.parametrize("rounds", [6, 8, 10])
def test_many_workers_have_a_bound(rounds):
    """Tables over 1,024 workers would have 10^8 entries."""
    graph, _ = make_chain(6)
    result = _core.search_exact(graph, [2] * rounds, time_budget_seconds=2.0)
    cost = sum(result.plan.round_bytes)
    assert 0 < result.lower_bound <= cost <= 1.02 * result.lower_bound
    assert cost <= result.recursive_bytes
    evaluated = _core.evaluate(graph, [2] * rounds, result.plan.operators, result.plan.tensors)
    assert evaluated.total_bytes == cost


def test_hints_hold_on_coarse_grids():
    graph, weights = make_chain(4)
    hints = {weights[0]: [0, 1, 0, 1, 1, 0], weights[1]: [0, 0, 0, -2, -2, 1]}
    plan = _core.search_exact(graph, [2] * 6, fixed_tensors=hints).plan
    for weight, choices in hints.items():
        pairs = zip(plan.tensors[weight], choices, strict=True)
        assert all(hint in (-2, choice) for choice, hint in pairs)
