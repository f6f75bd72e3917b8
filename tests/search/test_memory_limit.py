"""Memory against communication: searches that pay for memory are optimal, plans within a limit fit, and what cannot fit is explained."""

import re
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod

import mxnet as mx
import numpy as np
import pytest
from click.testing import CliRunner

import tofu
from tests.models.paper import Model, rnn, transformer
from tests.search.cell_model import CellModel
from tests.search.random_graphs import random_graph
from tests.search.test_exact import list_decisions
from tofu import _core
from tofu.command_line.main import main
from tofu.errors import InfeasibleError, PlanError
from tofu.graph import Phase, TensorKind
from tofu.planning.memory_limit import Tradeoff
from tofu.planning.settings import Settings
from tofu.search.algorithms import ALGORITHMS
from tofu.search.memory_weights import weigh_tensors
from tofu.search.native import list_cheap_operators
from tofu.sizes import read_bytes

LARGEST_SPACE = 1500  # plans that are listed


def mlp(layers, batch, width):
    """Large enough that its tensors would be split without need."""
    net = mx.sym.Variable("data")
    for i in range(layers):
        net = mx.sym.FullyConnected(net, num_hidden=width, name=f"fc{i}")
        net = mx.sym.Activation(net, act_type="tanh", name=f"act{i}")
    return Model("mlp", mx.sym.LinearRegressionOutput(net, name="loss"), {"data": (batch, width)})


MODELS = {
    "transformer": transformer(1, 256, 8, 8, length=64, vocabulary=512),
    "mlp": mlp(4, 1024, 256),
}


class CopyingModel(CellModel):
    """Every tensor may be replicated at every step."""

    def tensor_choices(self, tensor, history):
        return [*self.feasible(tensor.shape, history), -1]


def held_bytes(model, tensor, layout):
    return tensor.item_bytes * sum(len(model.shard(tensor.shape, layout, worker)) for worker in model.workers)


def test_a_plan_that_splits_everything_is_taken_where_it_moves_less(monkeypatch):
    """A search in which anything may be held need not come to its end. Weights that are large beside the batch are split."""
    model = mlp(3, 16, 1024)
    best = tofu.partition(model.symbol, 8, cache=False, **model.shapes).plan
    at_price = Tradeoff.at_price

    def give_up(tradeoff, held_price=0.0, split=frozenset()):
        tradeoff.algorithm, algorithm = ALGORITHMS["data-parallel"], tradeoff.algorithm
        point = at_price(tradeoff, held_price, split)
        tradeoff.algorithm = algorithm
        return point

    monkeypatch.setattr(Tradeoff, "at_price", give_up)
    monkeypatch.setattr(Tradeoff, "free", give_up)
    within = tofu.partition(model.symbol, 8, memory_limit=2**40, cache=False, **model.shapes).plan
    assert within.communication_bytes <= best.communication_bytes


def test_the_ends_of_a_tradeoff_are_searched_as_without_a_limit(monkeypatch):
    """A limit that a plan without one keeps gives no plan that moves more: the searches that split everything, and for which memory costs
    nothing, get as much effort. Those in between have parts of it.
    """
    asked = []
    solve = Tradeoff._solve

    def watch(tradeoff, problem, effort):
        asked.append((problem is tradeoff.problem, effort.seconds))
        return solve(tradeoff, problem, effort)

    monkeypatch.setattr(Tradeoff, "_solve", watch)
    model, limit = MODELS["mlp"], 2**40
    for has_more in (False, True):
        asked.clear()
        settings = {"memory_limit": limit, "cache": False, "search_seconds": 6}
        limit = max(tofu.partition(model.symbol, 4, **settings, **model.shapes).plan.worker_bytes) - 1
        assert [seconds for splits_all, seconds in asked if splits_all] == [6]
        free, *between = [seconds for splits_all, seconds in asked if not splits_all]
        assert free == 6
        assert bool(between) == has_more
        assert sum(between) <= 6


def test_no_plan_is_better_at_the_price_of_memory():
    checked = 0
    for seed in range(200):
        factors, price = [((2,), 0.25), ((2,), 1.0), ((2, 2), 0.5)][seed % 3]
        spec = random_graph(seed, largest=3)
        model = CopyingModel(spec, factors)
        roots, deciders, domains = list_decisions(model, spec)
        if prod(len(domain) for domain in domains) > LARGEST_SPACE:
            continue
        held, plain = spec.native(), spec.native()
        for tensor in range(len(spec.tensors)):
            held.hold(tensor, price)
        least = float("inf")
        for values in product(*domains):
            taken = dict(zip(deciders, values, strict=True))
            layouts = [taken["tensor", t] for t in range(len(spec.tensors))]
            arrays = np.array([taken[root] for root in roots]), np.array(layouts)
            moved = _core.evaluate(plain, list(factors), *arrays).total_bytes
            memory = sum(held_bytes(model, t, layout) for t, layout in zip(spec.tensors, layouts, strict=True))
            least = min(least, moved + price * memory)
        best = _core.search_exact(held, list(factors))
        # The price of each tensor is rounded to a whole byte.
        assert abs(sum(best.plan.step_bytes) - least) <= len(spec.tensors) / 2, f"seed {seed}"
        assert best.is_optimal
        checked += 1
    assert checked > 10


@pytest.fixture(scope="module")
def frontiers():
    return {name: tofu.frontier(model.symbol, 8, **model.shapes) for name, model in MODELS.items()}


def test_what_is_there_when_the_backward_pass_begins_counts_fully():
    """Variables, results, and activations that the backward pass reads; what lives shortly within one phase costs little."""
    partition = tofu.partition(MODELS["mlp"].symbol, 2, **MODELS["mlp"].shapes).planned()
    graph = partition.source.graph
    read_by = {phase: {t for o in graph.operators if o.phase is phase for t in o.inputs} for phase in Phase}
    made_by = {phase: {t for o in graph.operators if o.phase is phase for t in o.outputs} for phase in Phase}
    waiting = made_by[Phase.FORWARD] & read_by[Phase.BACKWARD]
    results = {*graph.outputs, *graph.gradients.values()}
    lasting = {t for t, tensor in enumerate(graph.tensors) if tensor.kind is not TensorKind.INTERMEDIATE}
    passing = made_by[Phase.BACKWARD] - results
    assert len(waiting) >= 4
    assert len(passing) >= 4
    for tensor, weight in enumerate(weigh_tensors(graph)):
        if tensor in waiting | results | lasting:
            assert weight == 1, graph.tensors[tensor].name
        elif tensor in passing:
            assert 0 < weight < 0.5, graph.tensors[tensor].name


def test_what_every_worker_may_compute_costs_no_more_than_its_tensors():
    problem = MODELS["mlp"].read(Settings(4)).problem
    cheap = {problem.graph.operators[o].op for o in list_cheap_operators(problem.graph, problem.accesses)}
    assert "Activation" in cheap
    assert "FullyConnected" not in cheap


@pytest.mark.parametrize("name", MODELS)
def test_free_replicas_move_no_more_than_any_other_plan(name):
    model = MODELS[name]

    def plan_of(**asked):
        return tofu.partition(model.symbol, ngpus=4, cache=False, **asked, **model.shapes).plan

    free = plan_of(replicate="free")
    assert free.optimality == "optimal"
    assert free.communication_bytes < plan_of().communication_bytes
    assert free.communication_bytes <= plan_of(algorithm="data-parallel").communication_bytes
    with pytest.raises(PlanError, match="replicate= needs a search"):
        plan_of(replicate="free", algorithm="data-parallel")


@pytest.mark.parametrize("name", MODELS)
def test_what_no_limit_allows_bounds_what_fits(name):
    """The plan without a limit is proved the best, so what fits into any is proved to be so far from the best, at most."""
    model = MODELS[name]
    asked = {"ngpus": 4, "cache": False, **model.shapes}
    free = tofu.partition(model.symbol, replicate="free", **asked).plan
    split = tofu.partition(model.symbol, **asked).plan
    roomy = tofu.partition(model.symbol, memory_limit=10 * max(free.worker_bytes), **asked).plan
    assert free.optimality == "optimal"
    assert roomy.optimality.endswith("plans; optimal")
    assert not roomy.kept
    tight = tofu.partition(model.symbol, memory_limit=max(split.worker_bytes), **asked).plan
    assert not tight.kept
    percent = Fraction(re.search(r"plans; within ([\d.]+) % of a proven lower bound$", tight.optimality)[1])
    over = Fraction(tight.communication_bytes, free.communication_bytes) - 1
    assert over <= percent / 100 < over + Fraction("0.0001")


def test_nothing_is_proved_of_plans_that_keep_what_they_fetch(monkeypatch):
    """Until the backward pass: they may move less than any plan that is bounded."""

    def keep(tradeoff, limit):
        point = tradeoff.free()
        return replace(point, choices=replace(point.choices, kept=(tradeoff.problem.graph.tensor_index["fc1_weight"],)))

    monkeypatch.setattr(Tradeoff, "find_fitting", keep)
    plan = tofu.partition(MODELS["mlp"].symbol, 4, memory_limit=2**40, cache=False, **MODELS["mlp"].shapes).plan
    assert plan.kept == ("fc1_weight",)
    assert plan.optimality.endswith("plans; nothing is proved")


@pytest.mark.parametrize("name", MODELS)
def test_a_frontier_trades_one_for_the_other(frontiers, name):
    found = frontiers[name]
    memory = [max(plan.worker_bytes) for plan in found.points]
    moved = [plan.communication_bytes for plan in found.points]
    assert memory == sorted(set(memory))
    assert moved == sorted(set(moved), reverse=True)
    assert memory[0] <= max(found.split_all.worker_bytes)
    assert moved[-1] < found.split_all.communication_bytes
    assert moved[-1] <= found.data_parallel.communication_bytes
    assert found.best_within(memory[-1]) == found.points[-1]
    with pytest.raises(InfeasibleError, match="the smallest needs"):
        found.best_within(memory[0] - 1)


@pytest.mark.parametrize("name", MODELS)
def test_plans_fit_and_move_less_the_more_there_is(frontiers, name):
    model, smallest = MODELS[name], frontiers[name].smallest_bytes
    moved = []
    for factor in (1.0, 1.1, 1.5):
        limit = int(smallest * factor)
        plan = tofu.partition(model.symbol, 8, memory_limit=limit, **model.shapes).plan
        assert max(plan.worker_bytes) <= limit
        assert plan.communication_bytes <= frontiers[name].best_within(limit).communication_bytes * 1.02
        moved.append(plan.communication_bytes)
    assert moved == sorted(moved, reverse=True)
    assert moved[-1] < moved[0]


def test_the_smallest_plan_of_a_frontier_is_found():
    """It is at none of the prices that a limit bisects."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=100, name="fc0")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="relu"), num_hidden=10, name="fc1")
    smallest = tofu.frontier(net, 4, data=(64, 20)).smallest_bytes
    plan = tofu.partition(net, 4, memory_limit=smallest, data=(64, 20)).plan
    assert max(plan.worker_bytes) <= smallest < max(tofu.partition(net, 4, data=(64, 20)).plan.worker_bytes)


def test_shared_regions_are_read_again_where_nothing_else_fits():
    """The time steps of a recurrence share the fetched weights, which stay through all of them and set the peak."""
    model = rnn(1, 256, 128, time_steps=4, features=256, classes=64)
    shared = tofu.partition(model.symbol, 8, **model.shapes).plan
    limit = max(shared.worker_bytes) * 19 // 20
    symbol = tofu.partition(model.symbol, 8, memory_limit=limit, **model.shapes)
    assert not shared.reread
    assert "lstm0_h2h_weight" in symbol.plan.reread
    assert max(symbol.plan.worker_bytes) <= limit
    assert symbol.plan.communication_bytes > shared.communication_bytes
    again = tofu.partition(model.symbol, 8, plan=tofu.Plan.from_json(symbol.plan.to_json()), **model.shapes).plan
    assert (again.reread, again.worker_bytes) == (symbol.plan.reread, symbol.plan.worker_bytes)
    assert "fetched again by every reader: lstm0_" in str(again)


def test_what_does_not_fit_is_explained():
    model = MODELS["mlp"]
    with pytest.raises(InfeasibleError) as raised:
        tofu.partition(model.symbol, 4, memory_limit="2.5 MiB", **model.shapes)
    message = str(raised.value)
    assert message.startswith(
        "No plan over 4 workers fits into a memory limit of 2.5 MiB (2,621,440 bytes) per worker."
    )
    assert "too much" in message
    advised = int(re.search(r"(\d+) workers would do", message)[1])
    assert advised > 4
    plan = tofu.partition(model.symbol, advised, **model.shapes).plan
    assert max(plan.worker_bytes) <= 2.5 * 2**20


def test_plans_and_baselines_under_a_limit():
    model = MODELS["transformer"]
    plan = tofu.partition(model.symbol, 8, **model.shapes).plan
    with pytest.raises(PlanError, match=r"The plan needs .* on worker \d, and the memory limit is 100 KiB"):
        tofu.partition(model.symbol, plan=plan, memory_limit="100 KiB", **model.shapes)
    with pytest.raises(PlanError, match="memory_limit= needs a search"):
        tofu.partition(model.symbol, 8, algorithm="data-parallel", memory_limit="1 GB", **model.shapes)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1000, 1000),
        (12e9, 12 * 10**9),
        ("12GB", 12 * 10**9),
        ("1.5 KiB", 1536),
        ("2g", 2 * 10**9),
        ("7", 7),
    ],
)
def test_bytes_are_read(value, expected):
    assert read_bytes(value) == expected


@pytest.mark.parametrize("value", [0, -1, "12 apples", "", "GB", True, [1], float("nan"), "1.2.3 GB"])
def test_what_is_no_number_of_bytes(value):
    with pytest.raises(PlanError, match="is not a size: a number of bytes"):
        read_bytes(value)


def test_command_line(tmp_path):
    model = MODELS["mlp"]
    model.symbol.save(str(tmp_path / "model.json"))
    shapes = [
        word for name, shape in model.shapes.items() for word in ("--shape", f"{name}:{','.join(map(str, shape))}")
    ]
    files = ["--plot", str(tmp_path / "frontier.svg"), "--csv", str(tmp_path / "frontier.csv")]
    done = CliRunner().invoke(main, ["frontier", str(tmp_path / "model.json"), *shapes, "--workers", "4", *files])
    assert done.exit_code == 0, done.output
    assert "data parallelism:" in done.output
    assert "<svg" in (tmp_path / "frontier.svg").read_text()
    rows = (tmp_path / "frontier.csv").read_text().splitlines()
    limit, moved = rows[-1].split(",")
    planned = ["plan", str(tmp_path / "model.json"), *shapes, "--workers", "4", "--memory-limit", limit]
    done = CliRunner().invoke(main, [*planned, "--json", str(tmp_path / "plan.json")])
    assert done.exit_code == 0, done.output
    assert tofu.Plan.from_json((tmp_path / "plan.json").read_text()).communication_bytes <= int(moved)
