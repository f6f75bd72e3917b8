"""The exact search finds the best plan of all, and its bound is a bound."""

import random
import resource
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.search.cell_model import CellModel
from tests.search.random_graphs import GraphSpec, elementwise, entangled_graph, matmul, random_graph
from tests.search.test_cost import choice_roots, rows_of
from tests.search.test_determinism import shuffle
from tofu import _core

FACTORS = [(2,), (2, 2), (3, 2), (2, 2, 2)]
LARGEST_SPACE = 2_000_000  # plans that are enumerated
# What cuts a search short: no elimination, so that all is left to message passing and mini-buckets, or none of large tables; little time;
# little memory.
LIMITS = (
    {"max_table_entries": 1, "time_budget_seconds": 0.0},
    {"max_table_entries": 1, "time_budget_seconds": 0.2},
    {"max_table_entries": 100, "time_budget_seconds": 0.01},
    {"max_bytes": 3e3},
    {"max_bytes": 1e5},
)


def sequences(choices, steps):
    """All sequences of feasible choices."""
    found = [()]
    for _ in range(steps):
        found = [(*history, choice) for history in found for choice in choices(history)]
    return found


def list_decisions(model, spec):
    """Who decides for each operator, all that decide, and what each can take over all steps."""
    roots = choice_roots(spec)
    deciders = sorted(set(roots) | {("tensor", t) for t in range(len(spec.tensors))})
    domains = [
        sequences(
            lambda history, kind=kind, i=i: (
                model.operator_choices(spec.operators[i], history)
                if kind == "operator"
                else model.tensor_choices(spec.tensors[i], history)
            ),
            len(model.factors),
        )
        for kind, i in deciders
    ]
    return roots, deciders, domains


def all_plans(spec, factors):
    """Bytes of every plan there is, one axis for each class of choices; None if there are too many."""
    model = CellModel(spec, factors)
    roots, deciders, domains = list_decisions(model, spec)
    if np.prod([float(len(d)) for d in domains]) > LARGEST_SPACE:
        return None
    place = {decider: i for i, decider in enumerate(deciders)}
    total = np.zeros([len(d) for d in domains], np.int64)
    for count, key, o, t in model.incidences():
        a, b = place[roots[o]], place["tensor", t]
        shape = [1] * len(domains)
        shape[a], shape[b] = len(domains[a]), len(domains[b])
        if a == b:
            table = np.array([count(*key, x, x) for x in domains[a]])
        else:
            table = np.array([[count(*key, x, y) for y in domains[b]] for x in domains[a]])
            table = table if a < b else table.T
        total += table.reshape(shape)
    return total


def search_cut_short(native, factors, limits, least, prices=()):
    """What a search finds. No bound that it tells, on its way or at its end, passes the bytes of the best plan, and a claim is true."""
    told = []
    result = _core.search_exact(
        native, list(factors), prices=list(prices), progress=lambda stage, best, bound: told.append(bound), **limits
    )
    found = sum(result.plan.step_bytes)
    assert max(*told, result.lower_bound) <= least <= found
    assert not result.is_optimal or found == result.lower_bound
    return result


@pytest.mark.parametrize("block", range(8))
def test_no_plan_of_all_is_better(block):
    checked = 0
    for seed in range(block, 5000, 8):
        factors = FACTORS[seed // 8 % len(FACTORS)]
        spec = random_graph(seed, largest=4)
        total = all_plans(spec, factors)
        if total is None:
            continue
        result = _core.search_exact(spec.native(), list(factors))
        assert sum(result.plan.step_bytes) == total.min() == result.lower_bound, f"seed {seed}"
        assert result.is_optimal
        assert result.recursive_bytes >= total.min()
        operators, tensors = rows_of(result.plan)
        assert CellModel(spec, factors).total_bytes(operators, tensors) == total.min(), f"seed {seed}"
        checked += 1
        if checked == 63:
            return
    pytest.fail(f"only {checked} graphs are small enough")


def test_no_plan_of_all_is_better_where_everything_may_be_repeated_and_replicated():
    checked, cheaper = 0, 0
    for seed in range(6000, 12000):
        factors = FACTORS[seed % len(FACTORS)]
        spec = random_graph(seed, largest=3, operators=(2, 3))
        split = all_plans(spec, factors)
        spec.repeats = spec.stages_small_sums = True
        for tensor in spec.tensors:
            tensor.replicable = True
        total = all_plans(spec, factors)
        if total is None:
            continue
        result = _core.search_exact(spec.native(), list(factors))
        assert result.is_optimal
        assert sum(result.plan.step_bytes) == total.min() == result.lower_bound, f"seed {seed}"
        assert CellModel(spec, factors).total_bytes(*rows_of(result.plan)) == total.min(), f"seed {seed}"
        cheaper += total.min() < split.min()
        checked += 1
        if checked == 60:
            break
    assert (checked, cheaper >= 5) == (60, True)


@pytest.mark.parametrize("factors", [(2, 2), (3, 2)])
def test_no_bound_passes_the_best_of_all_plans(factors):
    bounded = 0
    for seed in range(120):
        spec = entangled_graph(seed, 5, (2, 3, 4))
        total = all_plans(spec, factors)
        if total is None:
            continue
        for limits in LIMITS:
            bounded += search_cut_short(spec.native(), factors, limits, total.min()).num_sweeps > 0
    assert bounded >= 30  # else elimination solved them all


@pytest.mark.parametrize(
    ("factors", "price_of_memory", "prices"),
    [((2, 2), None, ()), ((2, 2, 2), None, ()), ((3, 2), 0.5, ()), ((2, 2, 2), 0.3, ()), ((3, 2), None, (1.0, 0.3))],
)
def test_no_search_that_is_cut_short_claims_too_much(factors, price_of_memory, prices):
    """Of graphs that have too many plans to list: elimination alone finds the best one, and no bound is needed for that."""
    worse = 0
    for seed in range(60):
        spec = entangled_graph(seed, 12, (8, 9, 12, 16))
        native = spec.native()
        if price_of_memory is not None:
            for tensor in range(len(spec.tensors)):
                native.hold(tensor, price_of_memory)
        best = _core.search_exact(native, list(factors), prices=list(prices))
        if best.num_sweeps > 0:
            continue
        assert best.is_optimal
        least = sum(best.plan.step_bytes)
        for limits in LIMITS:
            result = search_cut_short(native, factors, limits, least, prices)
            worse += sum(result.plan.step_bytes) > least
    assert worse > 0  # else any bound up to the plan that was found was true


def twins(seed):
    """Two or three products of one matrix, whose fetches of it are shared by those of equal choice; nothing makes their choices equal."""
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


def test_what_operators_share_by_chance_is_no_part_of_a_claim():
    """The bound is one, and "optimal" is true, of all plans as they are counted when they are carried out."""
    cheaper = 0
    for seed in range(30):
        spec = twins(seed)
        native, roots, found = spec.native(), choice_roots(spec), []
        _, deciders, domains = list_decisions(CellModel(spec, (2,)), spec)
        for plan in product(*domains):
            choice = dict(zip(deciders, plan, strict=True))
            operators = np.array([choice[root] for root in roots])
            tensors = np.array([choice["tensor", t] for t in range(len(spec.tensors))])
            found.append(_core.evaluate(native, [2], operators, tensors).total_bytes)
        result = _core.search_exact(native, [2])
        bytes_of_result = sum(result.plan.step_bytes)
        assert result.lower_bound <= min(found) <= bytes_of_result, f"seed {seed}"
        assert not result.is_optimal or bytes_of_result == min(found), f"seed {seed}"
        cheaper += min(found) < bytes_of_result
    assert cheaper >= 5  # else nothing was at stake


@pytest.mark.parametrize("factors", [(2,), (3,), (5,)])
def test_with_one_step_it_is_the_recursive_search(factors):
    for seed in range(150):
        spec = random_graph(7000 + seed, largest=12)
        recursive = _core.search_recursive(spec.native(), list(factors))
        assert rows_of(_core.search_exact(spec.native(), list(factors)).plan) == rows_of(recursive), f"seed {seed}"


@pytest.mark.parametrize("factors", [(3, 2), (2, 2, 2)])
def test_shuffled_graphs_have_the_same_plan(factors):
    rng = random.Random(8)
    for seed in range(40):
        spec = random_graph(2000 + seed, largest=12)
        operators, tensors = rows_of(_core.search_exact(spec.native(), list(factors)).plan)
        shuffled, operator_map, tensor_map = shuffle(spec, rng)
        new_operators, new_tensors = rows_of(_core.search_exact(shuffled.native(), list(factors)).plan)
        assert [new_operators[operator_map[i]] for i in range(len(operators))] == operators, f"seed {seed}"
        assert [new_tensors[tensor_map[i]] for i in range(len(tensors))] == tensors, f"seed {seed}"


@pytest.mark.parametrize("shares_regions", [False, True])
def test_a_problem_too_large_to_hold_leaves_the_recursions_plan(shares_regions):
    spec = random_graph(7, largest=12)
    spec.shares_regions = shares_regions
    found = _core.search_exact(spec.native(), [2, 2], max_bytes=100.0)
    assert rows_of(found.plan) == rows_of(_core.search_recursive(spec.native(), [2, 2]))
    assert (found.lower_bound, found.is_optimal, found.held_bytes) == (0, False, 0)


def test_hundreds_of_workers_take_little_memory():
    """Tensors of five dimensions have two million layouts on 512 workers, which nobody lists."""
    spec, shapes = GraphSpec(), [(1024, 512, 512, 512, extent) for extent in range(512, 520)]
    spec.outputs += [elementwise(spec, [spec.tensor(shape)]) for shape in shapes]
    before = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + 2**30, before[1]))
    try:
        found = _core.search_exact(spec.native(), [2] * 9)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert sum(found.plan.step_bytes) == found.recursive_bytes == 0


def test_a_tensor_has_twenty_partitions_and_a_convolution_far_fewer_choices_step_by_step():
    """Section 5.2: 20 ways to cut a 4-D tensor for 8 workers, in whatever order; 20^6 choices against 3 * 4^6."""
    graph = _core.Graph()
    graph.add_tensor([64, 64, 64, 64], 4, False, 0)
    steps = sequences(lambda h: _core.feasible_choices(graph, [2, 2, 2], "tensor", 0, list(h)), 3)
    assert len(steps) == 4**3
    shards = {tuple(map(tuple, np.diff(_core.shards(graph, [2, 2, 2], 0, list(s)))[0])) for s in steps}
    assert len(shards) == len({tuple(sorted(s)) for s in steps}) == 20
    tensors = 6
    assert len(shards) ** tensors == 64_000_000
    assert 3 * len(_core.feasible_choices(graph, [2, 2, 2], "tensor", 0, [])) ** tensors == 12_288


def test_progress_is_told_and_may_stop():
    spec = random_graph(3, largest=8)
    seen = []
    _core.search_exact(spec.native(), [2, 2], progress=lambda *report: seen.append(report))
    assert [stage for stage, _, _ in seen][:2] == ["recursive", "recursive"]

    def stop(stage, best, bound):
        if stage == "elimination":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _core.search_exact(spec.native(), [2, 2], progress=stop)


def test_hints_are_kept():
    for seed in range(30):
        spec = random_graph(seed, largest=8)
        free = _core.search_exact(spec.native(), [2, 2])
        graph = spec.native()
        choice = _core.feasible_choices(graph, [2, 2], "tensor", 0, [])[-1]
        result = _core.search_exact(graph, [2, 2], {}, {0: [choice, -2]})
        assert result.plan.tensors[0][0] == choice
        assert sum(result.plan.step_bytes) >= sum(free.plan.step_bytes)
        assert result.is_optimal


def test_no_time_leaves_a_plan_and_no_false_claim():
    spec = random_graph(11, largest=8)
    result = _core.search_exact(spec.native(), [2, 2, 2], time_budget_seconds=0.0)
    assert result.lower_bound <= sum(result.plan.step_bytes)
