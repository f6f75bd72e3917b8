import random
import resource
from pathlib import Path

import numpy as np
import pytest

from tests.search.cell_model import CellModel
from tests.search.plans import (
    LIMITS,
    count_pairs,
    list_decisions,
    list_plans,
    list_rows,
    list_sequences,
    search_with_limits,
)
from tests.search.random_graphs import GraphSpec, elementwise, entangled_graph, matmul, random_graph
from tofu import _core

FACTORS = [(2,), (2, 2), (3, 2), (2, 2, 2)]
LARGEST_SPACE = 2_000_000


def count_all_plans(spec, factors):
    """Return the bytes of all plans, with an array axis for each decider. Return None if there are too many."""
    _, deciders, values = list_decisions(CellModel(spec, factors), spec)
    if np.prod([float(len(domain)) for domain in values]) > LARGEST_SPACE:
        return None
    domains, tables = count_pairs(spec, factors, float("inf"))
    total = np.zeros([len(domain) for domain in values], np.int64)
    for pair, table in tables.items():
        a, b = map(deciders.index, pair)
        costs = np.diagonal(table) if a == b else table if a < b else table.T
        total += costs.reshape([len(domains[d]) if n in (a, b) else 1 for n, d in enumerate(deciders)])
    return total


@pytest.mark.parametrize("is_free", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_no_plan_is_better(block, is_free):
    """Allow repeated operators and replicated tensors in half of the cases."""
    checked = 0
    for seed in range(block, 5000, 4):
        factors = FACTORS[seed // 4 % len(FACTORS)]
        spec = random_graph(seed, largest=3 if is_free else 4)
        if is_free:
            spec.repeats = spec.stages_small_sums = True
            for tensor in spec.tensors:
                tensor.replicable = True
        total = count_all_plans(spec, factors)
        if total is None:
            continue
        result = _core.search_exact(spec.native(), list(factors))
        assert sum(result.plan.round_bytes) == total.min() == result.lower_bound, f"seed {seed}"
        assert result.is_optimal
        assert result.recursive_bytes >= total.min()
        operators, tensors = list_rows(result.plan)
        assert CellModel(spec, factors).total_bytes(operators, tensors) == total.min(), f"seed {seed}"
        checked += 1
        if checked == (8 if is_free else 20):
            return
    pytest.fail(f"only {checked} graphs are small enough")


@pytest.mark.parametrize("factors", [(2, 2), (3, 2)])
def test_no_bound_exceeds_the_best_plan(factors):
    bounded = 0
    for seed in range(80):
        spec = entangled_graph(seed, 5, (2, 3, 4))
        total = count_all_plans(spec, factors)
        if total is None:
            continue
        for limits in LIMITS:
            bounded += search_with_limits(spec.native(), factors, limits, total.min()).num_sweeps > 0
    assert bounded >= 30


@pytest.mark.parametrize(
    ("factors", "price_of_memory", "prices"),
    [((2, 2, 2), None, ()), ((3, 2), 0.5, ()), ((2, 2, 2), 0.3, ()), ((3, 2), None, (1.0, 0.3))],
)
def test_limited_searches_claim_only_what_is_true(factors, price_of_memory, prices):
    """Use graphs with too many plans to list. Elimination alone solves them."""
    worse = 0
    for seed in range(30):
        spec = entangled_graph(seed, 12, (8, 9, 12, 16))
        native = spec.native()
        if price_of_memory is not None:
            for tensor in range(len(spec.tensors)):
                native.hold(tensor, price_of_memory)
        best = _core.search_exact(native, list(factors), prices=list(prices))
        if best.num_sweeps > 0:
            continue
        assert best.is_optimal
        least = sum(best.plan.round_bytes)
        for limits in LIMITS:
            result = search_with_limits(native, factors, limits, least, prices)
            worse += sum(result.plan.round_bytes) > least
    assert worse > 0


@pytest.mark.parametrize("shares_regions", [False, True])
def test_a_problem_above_the_memory_limit_gets_the_recursive_plan(shares_regions):
    spec = random_graph(7, largest=12)
    spec.shares_regions = shares_regions
    found = _core.search_exact(spec.native(), [2, 2], max_bytes=100.0)
    assert list_rows(found.plan) == list_rows(_core.search_recursive(spec.native(), [2, 2]))
    assert (found.lower_bound, found.is_optimal, found.held_bytes) == (0, False, 0)


def test_a_search_without_time_keeps_a_better_start():
    improved = 0
    for seed in range(40):
        native = random_graph(seed, largest=12).native()
        best = _core.search_exact(native, [2, 2]).plan
        start = best.operators, best.tensors
        found = _core.search_exact(native, [2, 2], time_budget_seconds=0.0, start=start)
        assert sum(found.plan.round_bytes) == sum(best.round_bytes), seed
        improved += found.recursive_bytes > sum(best.round_bytes)
    assert improved > 0


def test_a_search_ends_if_no_plan_is_better_than_a_known_one():
    ended = 0
    for seed in range(30):
        spec = random_graph(seed, largest=12)
        spec.shares_regions = seed % 2 == 0
        best = _core.search_exact(spec.native(), [2, 2, 2])
        least = sum(best.plan.round_bytes)
        for known in (0, least // 2, least, least + 1):
            found = _core.search_exact(spec.native(), [2, 2, 2], max_table_entries=16, known_bytes=known)
            assert found.lower_bound <= least <= sum(found.plan.round_bytes)
            assert found.lower_bound >= known or sum(found.plan.round_bytes) == least
            ended += found.num_sweeps < best.num_sweeps or sum(found.plan.round_bytes) > least
    assert ended > 0


def test_hints_are_stronger_than_a_start():
    changed = 0
    for seed in range(12):
        native = random_graph(seed, largest=12).native()
        best = _core.search_exact(native, [2, 2]).plan
        start = best.operators, best.tensors
        for tensor in range(len(best.tensors)):
            for choice in _core.feasible_choices(native, [2, 2], "tensor", tensor, []):
                try:
                    alone = _core.search_exact(native, [2, 2], fixed_tensors={tensor: [choice, -2]})
                except ValueError:
                    continue
                begun = _core.search_exact(native, [2, 2], fixed_tensors={tensor: [choice, -2]}, start=start)
                assert begun.plan.tensors[tensor][0] == choice
                assert begun.plan.round_bytes == alone.plan.round_bytes
                changed += choice != best.tensors[tensor][0]
    assert changed > 0


@pytest.mark.slow
def test_512_workers_need_less_than_1_gib():
    """Tensors of five dimensions have two million layouts, which are never listed."""
    spec, shapes = GraphSpec(), [(1024, 512, 512, 512, extent) for extent in range(512, 520)]
    spec.outputs += [elementwise(spec, [spec.tensor(shape)]) for shape in shapes]
    before = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + 2**30, before[1]))
    try:
        found = _core.search_exact(spec.native(), [2] * 9)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert sum(found.plan.round_bytes) == found.recursive_bytes == 0


def test_numbers_of_configurations_of_section_5_2():
    """A 4-D tensor can be split for 8 workers in 20 ways. Three rounds for 6 tensors have 3 * 4^6 choices, not 20^6."""
    graph = _core.Graph()
    graph.add_tensor([64, 64, 64, 64], 4, False, 0)
    steps = list_sequences(lambda h: _core.feasible_choices(graph, [2, 2, 2], "tensor", 0, list(h)), 3)
    assert len(steps) == 4**3
    shards = {tuple(map(tuple, np.diff(_core.worker_boxes(graph, [2, 2, 2], "tensor", 0, list(s)))[0])) for s in steps}
    assert len(shards) == len({tuple(sorted(s)) for s in steps}) == 20
    tensors = 6
    assert len(shards) ** tensors == 64_000_000
    assert 3 * len(_core.feasible_choices(graph, [2, 2, 2], "tensor", 0, [])) ** tensors == 12_288


def make_products_of_one_matrix(seed):
    """Return products that share fetches of a matrix only if their choices happen to be equal."""
    rng = random.Random(seed)
    spec = GraphSpec()
    batch, inner, outer = (rng.randint(2, 5) for _ in range(3))
    x = spec.tensor((batch, inner))
    if rng.random() < 0.5:
        x = elementwise(spec, [x])
    group = len(spec.operators)
    for _ in range(rng.randint(2, 3)):
        spec.outputs.append(matmul(spec, x, spec.tensor((outer, inner)), group=group))
    return spec


def test_claims_hold_if_operators_may_share_fetches_by_chance():
    """The bound and "optimal" must be true for the bytes that are counted when plans run."""
    cheaper = 0
    for seed in range(30):
        spec = make_products_of_one_matrix(seed)
        native = spec.native()
        found = [_core.evaluate(native, [2], *plan).total_bytes for plan in list_plans(spec, (2,), LARGEST_SPACE)]
        result = _core.search_exact(native, [2])
        moved = sum(result.plan.round_bytes)
        assert result.lower_bound <= min(found) <= moved, f"seed {seed}"
        assert not result.is_optimal or moved == min(found), f"seed {seed}"
        cheaper += min(found) < moved
    assert cheaper >= 5, "some plans are cheaper by chance"


@pytest.mark.parametrize(
    ("search", "stages"), [(_core.search_exact, ["recursive", "recursive"]), (_core.search_recursive, None)]
)
def test_progress_is_reported_and_may_stop(search, stages):
    spec = random_graph(3, largest=8)
    seen = []
    search(spec.native(), [2, 2], progress=lambda *report: seen.append(report))
    assert len(seen) >= 2
    assert stages is None or [stage for stage, _, _ in seen][:2] == stages

    def stop(*report):
        if len(seen) == 1:
            raise KeyboardInterrupt
        seen.pop()

    with pytest.raises(KeyboardInterrupt):
        search(spec.native(), [2, 2], progress=stop)
