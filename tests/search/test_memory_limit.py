import re
from dataclasses import replace
from fractions import Fraction

import mxnet as mx
import pytest

import tofu
from tests.models.paper import PaperModel, rnn, transformer
from tests.search.cell_model import CellModel
from tests.search.plans import list_plans
from tests.search.random_graphs import random_graph
from tofu import _core
from tofu.errors import InfeasibleError, PlanError
from tofu.planning import progress
from tofu.planning.memory_limit import Tradeoff
from tofu.sizes import read_bytes

LARGEST_SPACE = 1500


def mlp(layers, batch, width):
    net = mx.sym.Variable("data")
    for i in range(layers):
        net = mx.sym.FullyConnected(net, num_hidden=width, name=f"fc{i}")
        net = mx.sym.Activation(net, act_type="tanh", name=f"act{i}")
    return PaperModel("mlp", mx.sym.LinearRegressionOutput(net, name="loss"), {"data": (batch, width)})


MODELS = {"transformer": transformer(1, 256, 8, 8, length=64, vocabulary=512), "mlp": mlp(4, 1024, 256)}


class ReplicatingModel(CellModel):
    def tensor_choices(self, tensor, history):
        return [*self.list_feasible(tensor.shape, history), -1]


def held_bytes(model, tensor, layout):
    return tensor.item_bytes * sum(len(model.find_shard(tensor.shape, layout, worker)) for worker in model.workers)


def test_no_plan_is_better_at_a_price_of_memory():
    checked = 0
    for seed in range(120):
        factors, price = [((2,), 0.25), ((2,), 1.0), ((2, 2), 0.5)][seed % 3]
        spec = random_graph(seed, largest=3)
        plans = list_plans(spec, factors, LARGEST_SPACE, ReplicatingModel)
        if not plans:
            continue
        model, held, plain = ReplicatingModel(spec, factors), spec.native(), spec.native()
        for tensor in range(len(spec.tensors)):
            held.hold(tensor, price)
        least = float("inf")
        for operators, layouts in plans:
            moved = _core.evaluate(plain, list(factors), operators, layouts).total_bytes
            rows = map(tuple, layouts.tolist())
            memory = sum(held_bytes(model, t, layout) for t, layout in zip(spec.tensors, rows, strict=True))
            least = min(least, moved + price * memory)
        best = _core.search_exact(held, list(factors))
        # The price of each tensor is rounded to a whole byte.
        assert abs(sum(best.plan.round_bytes) - least) <= len(spec.tensors) / 2, f"seed {seed}"
        assert best.is_optimal
        checked += 1
    assert checked > 10


@pytest.fixture(scope="module")
def frontiers():
    return {name: tofu.frontier(model.symbol, 8, **model.shapes) for name, model in MODELS.items()}


def plan_of(name, **asked):
    return tofu.partition(MODELS[name].symbol, 4, cache=False, **asked, **MODELS[name].shapes).plan


def test_free_replication_moves_the_fewest_bytes():
    free = plan_of("transformer", replicate="free")
    assert free.optimality == "optimal"
    assert free.communication_bytes < plan_of("transformer").communication_bytes
    assert free.communication_bytes <= plan_of("transformer", algorithm="data-parallel").communication_bytes


def test_the_unlimited_plan_bounds_plans_within_a_limit():
    free, split = plan_of("mlp", replicate="free"), plan_of("mlp")
    roomy = plan_of("mlp", memory_limit=10 * max(free.worker_bytes))
    assert free.optimality == "optimal"
    assert roomy.optimality.endswith("plans; optimal")
    assert not roomy.kept
    tight = plan_of("mlp", memory_limit=max(split.worker_bytes))
    assert not tight.kept
    percent = Fraction(re.search(r"plans; within ([\d.]+) % of a proven lower bound$", tight.optimality)[1])
    over = Fraction(tight.communication_bytes, free.communication_bytes) - 1
    assert over <= percent / 100 < over + Fraction("0.0001")


@pytest.mark.parametrize("name", MODELS)
def test_frontiers_trade_memory_for_bytes(frontiers, name):
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
def test_plans_fit_and_move_less_with_more_memory(frontiers, name):
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


def test_shared_regions_are_fetched_again_if_nothing_else_fits():
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


def test_infeasible_limits_are_explained():
    model = MODELS["mlp"]
    with pytest.raises(InfeasibleError) as raised:
        plan_of("mlp", memory_limit="2.5 MiB")
    message = str(raised.value)
    assert message.startswith("No plan over 4 workers fits into a memory limit of 2.5 MiB (2,621,440 bytes) per worker")
    assert "too much" in message
    advised = int(re.search(r"(\d+) workers would do", message)[1])
    assert advised > 4
    plan = tofu.partition(model.symbol, advised, **model.shapes).plan
    assert max(plan.worker_bytes) <= 2.5 * 2**20


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1024, 1024), (12e9, 12 * 10**9), ("12GB", 12 * 10**9), ("1.5 KiB", 1536), ("2g", 2 * 10**9), ("7 B", 7)],
)
def test_sizes_are_parsed(value, expected):
    assert read_bytes(value) == expected
    for wrong in (0, -1, "12 apples", "GB", True, float("nan"), "1.2.3 GB"):
        with pytest.raises(PlanError, match="is not a size: a number of bytes"):
            read_bytes(wrong)


def test_progress_counts_plans_and_workers(capsys, monkeypatch):
    for name in ("SILENT_SECONDS", "SECONDS_BETWEEN_LINES"):
        monkeypatch.setattr(progress, name, 0.0)
    monkeypatch.setattr(progress, "SECONDS_OF_LINES", ())
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 1e-4)
    with pytest.raises(InfeasibleError, match="workers would do"):
        plan_of("mlp", memory_limit="2.5 MiB")
    shown = capsys.readouterr().err
    assert re.search(r"tofu: planning, \d+ operators over 4 workers, plan \d+ for the memory limit, .*\d s", shown)
    assert re.search(r"tofu: planning, \d+ operators over 4 workers, trying \d+ workers, \d s", shown)


@pytest.mark.parametrize("value", [80, 80.0, "80", " 80 "])
def test_a_small_number_lacks_its_unit(value):
    with pytest.raises(PlanError, match=r"is 80 bytes\. Did you mean 80 GiB\? Write memory_limit='80GiB'\."):
        plan_of("mlp", memory_limit=value)


def test_nothing_is_proved_of_plans_that_keep_fetched_tensors(monkeypatch):
    """Tensors are kept until the backward pass, so plans may transfer less than any plan that the bound covers."""

    def keep(tradeoff, limit):
        point = tradeoff.replicate_freely()
        weight = tradeoff.problem.graph.tensor_index["fc1_weight"]
        return replace(point, choices=replace(point.choices, kept=(weight,)))

    monkeypatch.setattr(Tradeoff, "find_fitting", keep)
    plan = plan_of("mlp", memory_limit=2**40)
    assert plan.kept == ("fc1_weight",)
    assert plan.optimality.endswith("plans; nothing is proved")
