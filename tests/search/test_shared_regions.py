import random
from collections import Counter

import numpy as np
import pytest

from tests.search.cell_model import CellModel
from tests.search.plans import LIMITS, draw_plan, list_plans, list_rows, search_with_limits
from tests.search.programs import check_plan
from tests.search.random_graphs import GraphSpec, elementwise, matmul, random_graph, transpose_read, update
from tofu import _core

MOST_PLANS = 3000
FACTORS = [(2,), (2, 2), (3, 2), (2, 2, 2)]


def draw_shared_graph(seed, reads=4, extents=(2, 3, 4)):
    rng = random.Random(seed)
    spec = GraphSpec(shares_regions=True)
    matrices = [spec.tensor((rng.choice((1, 2, *extents)), rng.choice(extents)))]
    for _ in range(rng.randint(2, reads)):
        x = matrices[0] if rng.random() < 0.7 else rng.choice(matrices)
        phase = rng.choice((0, 0, 0, 1))
        kind = rng.choice(("matmul", "matmul", "matmul", "transpose", "elementwise"))
        if kind == "matmul":
            weight = spec.tensor((rng.choice(extents), spec.tensors[x].shape[1]), replicable=rng.random() < 0.3)
            matrices.append(matmul(spec, x, weight, phase=phase))
            if rng.random() < 0.2:
                update(spec, weight, elementwise(spec, [weight], phase=1))
        elif kind == "transpose":
            matrices.append(transpose_read(spec, x, phase=phase))
        else:
            matrices.append(elementwise(spec, [x], phase=phase))
    spec.outputs += matrices[1:]
    return spec


def count_bytes(spec, factors, operators, tensors):
    model = CellModel(spec, factors)
    total = sum(
        count(*key, operators[o], tensors[t])
        for count, key, o, t in model.list_incidences()
        if count is model.write_bytes
    )
    fetched = set()
    for position, operator in enumerate(spec.operators):
        for read in filter(lambda read: read.is_read, operator.reads):
            info, choice = spec.tensors[read.tensor], operators[position]
            asked = []
            for worker in model.workers:
                spared = any(a in read.addend_axes and worker[s] != 0 for s, a in enumerate(choice))
                region = model.region(read, info.shape, operator.extents, choice, worker)
                if operator.fetched:
                    region = frozenset(model.clip(region, info.shape))
                asked.append(None if spared else region)
            is_outside = any(region != model.clip(region, info.shape) for region in asked if region is not None)
            who = position if operator.follows >= 0 else None
            key = (read.tensor, operator.phase, tuple(asked), read.fill if is_outside else None, who)
            if key in fetched:
                continue
            fetched.add(key)
            for worker, region in zip(model.workers, asked, strict=True):
                if region is not None:
                    mine = model.find_shard(info.shape, tensors[read.tensor], worker)
                    total += info.item_bytes * len(model.clip(region, info.shape) - mine)
    return total


def list_costs(spec, factors, prices=()):
    native, plans = spec.native(), list_plans(spec, factors, MOST_PLANS)
    return [_core.evaluate(native, list(factors), *plan, prices=list(prices)).total_bytes for plan in plans]


@pytest.mark.parametrize("block", range(4))
def test_bytes_count_distinct_regions(block):
    for seed in range(block, 80, 4):
        factors = FACTORS[seed // 4 % 3]
        spec = random_graph(seed, largest=6) if seed % 2 else draw_shared_graph(seed)
        spec.shares_regions = True
        operators, tensors = draw_plan(random.Random(seed), spec, factors, 0.2)
        native = spec.native()
        found = _core.evaluate(native, list(factors), np.array(operators), np.array(tensors))
        assert found.total_bytes == sum(found.round_bytes) == count_bytes(spec, factors, operators, tensors), (
            f"seed {seed}"
        )
        levels, _ = _core.count_levels(native, list(factors), np.array(operators), np.array(tensors))
        assert sum(levels) == found.total_bytes


def test_programs_move_the_counted_bytes():
    for seed in range(40):
        spec = random_graph(seed, largest=6) if seed % 2 else draw_shared_graph(seed)
        spec.shares_regions = True
        factors, rng = FACTORS[seed // 2 % 3], random.Random(seed)
        plan = draw_plan(rng, spec, factors, 0.2)
        check_plan(spec, factors, *plan, seed)
        check_plan(spec, factors, *plan, seed, kept=[t for t in range(len(spec.tensors)) if rng.random() < 0.5])
        check_plan(spec, factors, *plan, seed, reread=[t for t in range(len(spec.tensors)) if rng.random() < 0.5])


@pytest.mark.parametrize(
    ("factors", "prices"), [((2,), ()), ((3, 2), ()), ((2, 2), (3.0, 1.0)), ((2, 2, 2), (3.0, 1.0, 0.5))]
)
def test_no_plan_is_better(factors, prices):
    seen = Counter()
    for seed in range(80):
        spec = draw_shared_graph(seed, reads=3, extents=(2, 3))
        costs = list_costs(spec, factors, prices)
        if not costs:
            continue
        result = _core.search_exact(spec.native(), list(factors), prices=list(prices))
        assert result.is_optimal
        assert sum(result.plan.round_bytes) == min(costs) == result.lower_bound, f"seed {seed}"
        if not prices:
            assert count_bytes(spec, factors, *list_rows(result.plan)) == min(costs), f"seed {seed}"
        spec.shares_regions = False
        apart = _core.search_exact(spec.native(), list(factors), prices=list(prices)).plan
        spec.shares_regions = True
        shared = _core.evaluate(
            spec.native(), list(factors), apart.operators, apart.tensors, prices=list(prices)
        ).total_bytes
        seen["checked"] += 1
        seen["shares"] += min(costs) < sum(apart.round_bytes)
        seen["another plan"] += min(costs) < shared
    assert seen["checked"] >= 30
    assert seen["shares"] >= 1
    assert seen["another plan"] >= 1


@pytest.mark.parametrize("reads", [9, 14])
def test_larger_graphs_are_solved_and_limited_searches_claim_only_what_is_true(reads):
    """Message passing replaces tensors with more than 6 readers by several stars."""
    proved = 0
    for seed in range(40):
        spec = draw_shared_graph(1000 + seed, reads=reads, extents=(8, 9, 12))
        best = _core.search_exact(spec.native(), [2, 2, 2])
        proved += best.is_optimal
        least = sum(best.plan.round_bytes)
        assert best.lower_bound <= least
        for limits in LIMITS if best.is_optimal else ():
            search_with_limits(spec.native(), (2, 2, 2), limits, least)
    assert proved == 40
