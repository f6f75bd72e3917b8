"""Where regions are shared, all reads of one region map in one phase pay once: counted, emitted and searched so, with a proof."""

import random
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.numpy_engine.backend import NumpyBackend
from tests.numpy_engine.front_end import NumpyFrontEnd
from tests.numpy_engine.steps import perceptron
from tests.search.cell_model import CellModel
from tests.search.random_graphs import GraphSpec, convolution, elementwise, matmul, random_graph, transpose_read, update
from tests.search.test_cost import choice_roots, random_plan, rows_of
from tests.search.test_exact import LIMITS, list_decisions, search_cut_short
from tests.search.test_program import check_plan
from tofu import _core, core
from tofu.search.cost import list_worth_keeping, list_worth_rereading

MOST_PLANS = 3000
FACTORS = [(2,), (2, 2), (3, 2), (2, 2, 2)]


def shared_graph(seed, reads=4, extents=(2, 3, 4)):
    """A few matrices that are read several times, by products, transpositions and element-wise, in one phase or two."""
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
    """The bytes of a plan by the definition, cell by cell: reads of one tensor and phase share where they ask for the same everywhere."""
    model = CellModel(spec, factors)
    total = sum(
        count(*key, operators[o], tensors[t]) for count, key, o, t in model.incidences() if count is model.write_bytes
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
                    region = frozenset(model.inside(region, info.shape))
                asked.append(None if spared else region)
            is_outside = any(region != model.inside(region, info.shape) for region in asked if region is not None)
            who = position if operator.follows >= 0 else None
            key = (read.tensor, operator.phase, tuple(asked), read.fill if is_outside else None, who)
            if key in fetched:
                continue
            fetched.add(key)
            for worker, region in zip(model.workers, asked, strict=True):
                if region is not None:
                    mine = model.shard(info.shape, tensors[read.tensor], worker)
                    total += info.item_bytes * len(model.inside(region, info.shape) - mine)
    return total


def all_costs(spec, factors, prices=()):
    """What each plan there is costs; nothing if there are too many."""
    model = CellModel(spec, factors)
    roots, deciders, domains = list_decisions(model, spec)
    if np.prod([float(len(domain)) for domain in domains]) > MOST_PLANS:
        return []
    native, costs = spec.native(), []
    for plan in product(*domains):
        choice = dict(zip(deciders, plan, strict=True))
        operators = np.array([choice[root] for root in roots], np.int32)
        tensors = np.array([choice["tensor", t] for t in range(len(spec.tensors))], np.int32)
        costs.append(_core.evaluate(native, list(factors), operators, tensors, prices=list(prices)).total_bytes)
    return costs


@pytest.mark.parametrize("block", range(4))
def test_bytes_are_those_of_distinct_region_maps(block):
    for seed in range(block, 160, 4):
        factors = FACTORS[seed // 4 % 3]
        spec = random_graph(seed, largest=6) if seed % 2 else shared_graph(seed)
        spec.shares_regions = True
        operators, tensors = random_plan(random.Random(seed), spec, factors, 0.2)
        native = spec.native()
        found = _core.evaluate(native, list(factors), np.array(operators), np.array(tensors))
        assert found.total_bytes == sum(found.step_bytes) == count_bytes(spec, factors, operators, tensors), (
            f"seed {seed}"
        )
        levels, _ = _core.count_levels(native, list(factors), np.array(operators), np.array(tensors))
        assert sum(levels) == found.total_bytes


def test_programs_move_what_is_counted():
    for seed in range(80):
        spec = random_graph(seed, largest=6) if seed % 2 else shared_graph(seed)
        spec.shares_regions = True
        factors, rng = FACTORS[seed // 2 % 3], random.Random(seed)
        plan = random_plan(rng, spec, factors, 0.2)
        check_plan(spec, factors, *plan, seed)
        check_plan(spec, factors, *plan, seed, kept=[t for t in range(len(spec.tensors)) if rng.random() < 0.5])
        check_plan(spec, factors, *plan, seed, reread=[t for t in range(len(spec.tensors)) if rng.random() < 0.5])


def test_another_phase_fetches_again_unless_the_region_is_kept():
    spec = GraphSpec(shares_regions=True)
    x = spec.tensor((4, 4))
    spec.outputs += [elementwise(spec, [x], phase=phase) for phase in (0, 0, 1)]
    across = np.array([[0]] * 3), np.array([[1]] + [[0]] * 3)
    once = 4 * 8
    assert _core.evaluate(spec.native(), [2], *across).total_bytes == 2 * once
    assert _core.evaluate(spec.native(), [2], *across, kept=[x]).total_bytes == once
    assert _core.evaluate(spec.native(), [2], *across, reread=[x]).total_bytes == 3 * once


def test_nothing_is_kept_or_read_again_for_single_workers():
    """The same plan is worth keeping regions for where each worker fetches for itself."""
    observe, engine = core.Observer(), core.Engine(NumpyFrontEnd(), NumpyBackend())
    task = core.analyse_step(core.Source(perceptron(120, 100, 90)), engine, core.Settings(4), observe)
    made = core.make_partition(task, observe)
    sharing = replace(made.problem, moves=core.Moves(shares_regions=True))
    assert list_worth_keeping(made.choices)
    assert not list_worth_keeping(made.choices.apply_to(sharing))
    assert not list_worth_rereading(made.choices.apply_to(sharing))


def test_borders_of_different_numbers_are_fetched_apart():
    spec = GraphSpec(shares_regions=True)
    x = spec.tensor((2, 2, 8))
    for _ in range(2):
        spec.outputs.append(convolution(spec, x, kernel=3, stride=1, pad=1, filters=2))
    by_length = np.array([[3]] * 2)
    layouts = np.array([[2 if len(t.shape) == 3 and t.shape[2] == 8 else 0] for t in spec.tensors])
    both = _core.evaluate(spec.native(), [2], by_length, layouts).total_bytes
    spec.operators[1].reads[0].fill = 3.0
    apart = _core.evaluate(spec.native(), [2], by_length, layouts).total_bytes
    border = 2 * 2 * 2 * 4  # a column of each worker's neighbour
    assert apart - both == border
    assert apart == count_bytes(spec, (2,), [(3,)] * 2, [tuple(row) for row in layouts.tolist()])


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("prices", [(), (3.0, 1.0, 0.5)])
def test_no_plan_of_all_is_better(factors, prices):
    seen = Counter()
    levels = prices[: len(factors)]
    for seed in range(80):
        spec = shared_graph(seed, reads=3, extents=(2, 3))
        costs = all_costs(spec, factors, levels)
        if not costs:
            continue
        result = _core.search_exact(spec.native(), list(factors), prices=list(levels))
        assert result.is_optimal
        assert sum(result.plan.step_bytes) == min(costs) == result.lower_bound, f"seed {seed}"
        if not prices:
            assert count_bytes(spec, factors, *rows_of(result.plan)) == min(costs), f"seed {seed}"
        spec.shares_regions = False
        apart = _core.search_exact(spec.native(), list(factors), prices=list(levels)).plan
        spec.shares_regions = True
        shared = _core.evaluate(
            spec.native(), list(factors), apart.operators, apart.tensors, prices=list(levels)
        ).total_bytes
        seen["checked"] += 1
        seen["shares"] += min(costs) < sum(apart.step_bytes)
        seen["another plan"] += min(costs) < shared
    assert seen["checked"] >= 30
    assert seen["shares"] >= 1  # else nothing was at stake
    assert seen["another plan"] >= 1


def test_no_bound_passes_the_best_of_all_plans():
    open_ = 0
    for seed in range(200):
        factors = FACTORS[seed % 3]
        spec = shared_graph(seed)
        costs = all_costs(spec, factors)
        for limits in LIMITS if costs else ():
            open_ += not search_cut_short(spec.native(), factors, limits, min(costs)).is_optimal
    assert open_ >= 5  # else every search ended in time


def test_larger_graphs_are_proved_and_no_search_that_is_cut_short_claims_too_much():
    proved = 0
    for seed in range(40):
        spec = shared_graph(1000 + seed, reads=9, extents=(8, 9, 12))
        best = _core.search_exact(spec.native(), [2, 2, 2])
        proved += best.is_optimal
        least = sum(best.plan.step_bytes)
        assert best.lower_bound <= least
        for limits in LIMITS if best.is_optimal else ():
            search_cut_short(spec.native(), (2, 2, 2), limits, least)
    assert proved == 40


def test_operators_that_share_a_choice_are_one_reader():
    spec = GraphSpec(shares_regions=True)
    x = spec.tensor((4, 4))
    for _ in range(2):
        spec.outputs.append(elementwise(spec, [x]))
    spec.operators[1].same_as = 0
    assert set(choice_roots(spec)) == {("operator", 0)}
    assert sum(_core.search_exact(spec.native(), [2, 2]).plan.step_bytes) == 0
