import json
import random

import numpy as np
import pytest

import tofu
from tests.models.paper import rnn
from tests.search.plans import draw_plan, list_plans
from tests.search.programs import count_traffic, emit_training, read_program
from tests.search.random_graphs import GraphSpec, matmul, random_graph
from tofu import _core

LARGEST_SPACE = 2000


def count_crossing_bytes(factors, traffic):
    workers = list(np.ndindex(*factors))
    levels = [0] * len(factors)
    for reader, mine in enumerate(workers):
        for owner, other in enumerate(workers):
            if reader != owner:
                levels[[a == b for a, b in zip(mine, other, strict=True)].index(False)] += int(traffic[reader, owner])
    return levels


@pytest.mark.parametrize("seed", range(12))
def test_levels_count_the_emitted_fetches(seed):
    factors = [(2, 2), (3, 2), (2, 2, 2)][seed % 3]
    rng = random.Random(seed)
    spec = random_graph(seed)
    operators, tensors = draw_plan(rng, spec, factors, replicate=0.2 if seed % 2 else 0)
    native, data, requests, cost = emit_training(spec, factors, operators, tensors)
    traffic = count_traffic(read_program(spec, factors, data, requests))
    arrays = np.array(operators), np.array(tensors)
    levels, waits = _core.count_levels(native, list(factors), *arrays)
    assert levels == count_crossing_bytes(factors, traffic)
    _, by_round = _core.count_levels(native, list(factors), *arrays, prices=range(1, len(factors) + 1))
    assert [count > 0 for count in by_round] == [count > 0 for count in levels]
    assert max(by_round) <= sum(waits) <= sum(by_round)
    assert sum(levels) == cost.total_bytes
    prices = [rng.randint(1, 5) for _ in factors]
    priced = _core.evaluate(native, list(factors), *arrays, prices=prices)
    assert priced.total_bytes == sum(price * count for price, count in zip(prices, levels, strict=True))
    latencies = [rng.randint(0, 50) for _ in factors]
    late = _core.evaluate(native, list(factors), *arrays, prices=prices, latencies=latencies)
    _, waits = _core.count_levels(native, list(factors), *arrays, prices=prices, latencies=latencies)
    assert late.total_bytes == priced.total_bytes + sum(a * b for a, b in zip(latencies, waits, strict=True))


def test_relays_count_what_each_round_adds():
    """The first rounds are a plan for fewer workers: each group counts as one worker and relays."""
    equal = 0
    for seed in range(60):
        factors = [(2, 2), (3, 2), (2, 2, 2)][seed % 3]
        spec = random_graph(seed)
        spec.stages_small_sums = seed % 2 == 0
        operators, tensors = draw_plan(random.Random(seed), spec, factors, replicate=0.2 if seed % 2 else 0)
        plan = list(factors), np.array(operators), np.array(tensors)
        spec.relays = True
        counts, _ = _core.count_levels(spec.native(), *plan)
        cost = _core.evaluate(spec.native(), *plan)
        assert sum(counts) == cost.total_bytes
        assert min(counts) >= 0
        equal += counts == cost.round_bytes  # they differ if regions of a group have gaps
    assert equal >= 50


def test_collectives_over_two_levels_cross_the_top_once_for_each_group():
    spec = GraphSpec()
    x, w = spec.tensor((8, 16)), spec.tensor((24, 16))
    spec.outputs = [matmul(spec, x, w, replicable=True)]
    spec.relays = spec.stages_small_sums = True
    columns = [[1, 1], [1, 1], [-1, -1]]  # layouts of x, w and y
    all_reduce, _ = _core.count_levels(spec.native(), [2, 4], np.array([[2, 2]]), np.array(columns))
    y_bytes = 4 * 8 * 24
    assert all_reduce == [2 * y_bytes, 2 * 2 * 3 * y_bytes]
    rows = [[0, 0], [0, 0], [0, 0]]
    all_gather, _ = _core.count_levels(spec.native(), [2, 4], np.array([[0, 0]]), np.array(rows))
    w_bytes = 4 * 24 * 16
    assert all_gather == [w_bytes, 2 * 3 * w_bytes]


@pytest.mark.slow
def test_no_plan_costs_less():
    checked = 0
    for seed in range(400):
        factors, prices = (2, 2), [(7, 1), (1, 7), (3, 2)][seed % 3]
        spec = random_graph(seed, largest=3)
        spec.relays = seed % 2 == 0
        native = spec.native()
        plans = list_plans(spec, factors, LARGEST_SPACE)
        if not plans:
            continue
        for latencies in ((0, 0), (40, 3)):
            options = {"prices": prices, "latencies": latencies}
            levels = [_core.count_levels(native, list(factors), *plan, **options) for plan in plans]
            costs = [
                sum(p * b + w * n for p, b, w, n in zip(prices, counts, latencies, waits, strict=True))
                for counts, waits in levels
            ]
            if spec.relays:
                evaluated = [_core.evaluate(native, list(factors), *plan, **options).total_bytes for plan in plans]
                assert all(a <= b for a, b in zip(costs, evaluated, strict=True))
                costs = evaluated
            least = min(costs)
            best = _core.search_exact(native, list(factors), **options)
            found = best.is_optimal, best.lower_bound, sum(best.plan.round_bytes)
            assert found == (True, least, least), f"seed {seed}, latencies {latencies}"
            recursive = _core.search_recursive(native, list(factors), **options)
            assert least <= sum(recursive.round_bytes)
        checked += 1
    assert checked > 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prices": [1]}, "prices for 2 rounds: each round needs one, a positive number"),
        ({"prices": [1, 0]}, "prices for 2 rounds: each round needs one, a positive number"),
        ({"prices": [1, float("inf")]}, "prices for 2 rounds: each round needs one, a positive number"),
        ({"prices": [1, 1], "latencies": [1, -1]}, "latencies for 2 rounds: each round needs one that is not negative"),
        ({"prices": [1, 1], "latencies": [1]}, "latencies for 2 rounds: each round needs one that is not negative"),
        ({"latencies": [1, 1]}, "beside a price"),
    ],
)
def test_wrong_prices_and_latencies_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        _core.search_recursive(random_graph(0).native(), [2, 2], **options)


MODEL = rnn(2, 64, 24, time_steps=2, features=16, classes=16)


def plan_of(workers, topology, **asked):
    asked.setdefault("algorithm", "exact")
    return tofu.partition(MODEL.symbol, ngpus=workers, topology=topology, **asked, **MODEL.shapes).plan


def test_plans_for_a_topology_state_seconds_and_are_faster():
    for bandwidths in ([1e9, 1e10], [1e10, 1e9]):
        plan, by_bytes = plan_of(6, bandwidths), plan_of(6, None)
        assert plan.bandwidths == tuple(bandwidths)
        assert sum(plan.level_bytes) == plan.communication_bytes >= by_bytes.communication_bytes
        seconds = sum(count / bandwidth for count, bandwidth in zip(plan.level_bytes, bandwidths, strict=True))
        assert plan.communication_seconds == seconds
        assert seconds < sum(c / b for c, b in zip(by_bytes.level_bytes, bandwidths, strict=True)) * (1 + 1e-6)
        assert by_bytes.communication_seconds is None
        assert "on this interconnect" in str(plan)
        assert tofu.Plan.from_json(plan.to_json()) == plan
        assert tofu.partition(MODEL.symbol, plan=plan, **MODEL.shapes).plan == plan


def test_latencies_reduce_the_number_of_fetches():
    fast = [{"bytes_per_second": 1e9, "microseconds": 1e-6}, {"bytes_per_second": 1e9, "microseconds": 1e-6}]
    late = [{"bytes_per_second": 1e9, "microseconds": 500}, {"bytes_per_second": 1e9, "microseconds": 5}]
    by_bytes, by_time = plan_of(4, fast), plan_of(4, late)
    assert by_time.latencies == (500, 5)
    assert by_time.level_waits[0] < by_bytes.level_waits[0]
    assert by_time.communication_bytes > by_bytes.communication_bytes

    def seconds(plan):
        moving = sum(plan.level_bytes) / 1e9
        return moving + sum(1e-6 * a * b for a, b in zip((500, 5), plan.level_waits, strict=True))

    assert by_time.communication_seconds == pytest.approx(seconds(by_time), rel=1e-12)
    assert seconds(by_time) < seconds(by_bytes)
    assert tofu.Plan.from_json(by_time.to_json()) == by_time
    assert tofu.partition(MODEL.symbol, plan=by_time, **MODEL.shapes).plan == by_time
    assert "latencies" not in plan_of(4, [1e9, 1e9]).to_json()


def test_the_order_of_the_factors_is_searched(tmp_path):
    """Divide a slow top level by 2 rather than 3: fewer workers read across it."""
    assert plan_of(6, [1e9, 1e10]).factors == (2, 3)
    assert plan_of(6, [1e10, 1e9]).factors == (3, 2)
    fixed = [{"workers": 3, "bytes_per_second": 1e9}, {"workers": 2, "bytes_per_second": 1e10}]
    assert plan_of(6, fixed).factors == (3, 2)
    assert plan_of(6, fixed).communication_seconds > plan_of(6, [1e9, 1e10]).communication_seconds
    levels = [{"workers": 2, "bytes_per_second": 1e9, "microseconds": 3}, {"workers": 4, "bytes_per_second": 5e9}]
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"levels": levels}))
    plan = plan_of(8, str(path))
    assert (plan.factors, plan.bandwidths, plan.latencies) == ((2, 2, 2), (1e9, 5e9, 5e9), (3, 0, 0))
