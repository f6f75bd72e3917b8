"""The plans of the baselines, and those with room in memory, train like one device and move the bytes that they say."""

from dataclasses import replace

import mxnet as mx
import pytest

from tests.equality.comparison import STEPS, References, compare
from tests.models.paper import rnn, transformer
from tests.models.plain import Model, residual_cnn
from tests.shared.random_plans import random_plan
from tests.shared.training import bind_partitioned, random_values, run_single
from tofu.errors import PlanError
from tofu.plan import REPLICATION_LIMIT_BYTES, Plan
from tofu.search.algorithms import BASELINES
from tofu.search.choices import name_tensors
from tofu.search.cost import list_worth_keeping, list_worth_rereading

WORKERS = 4


def from_benchmarks(made, classes: int) -> Model:
    return Model(made.symbol, dict(made.shapes), classes)


MODELS = {
    "transformer": lambda: from_benchmarks(
        transformer(1, 16, 4, 4, length=4, vocabulary=16, heads_first=True, dtype="float64"), classes=16
    ),
    "rnn": lambda: from_benchmarks(rnn(1, 12, 4, time_steps=2, features=8, classes=10), classes=10),
    "residual_cnn": residual_cnn,
}
CASES = [(name, algorithm) for name in MODELS for algorithm in BASELINES if algorithm != "megatron"]


@pytest.fixture(scope="module")
def reference():
    return References(lambda name, _: MODELS[name]())


@pytest.mark.parametrize(("name", "algorithm"), [*CASES, ("transformer", "megatron")])
def test_baselines_equal_one_device(reference, name, algorithm):
    model, values, step, weights = reference(name, "float64")
    executor = bind_partitioned(model, WORKERS, "float64", algorithm=algorithm)
    assert executor.partition.plan.algorithm == algorithm
    compare(executor, values, step, weights, STEPS)


def wide_mlp() -> Model:
    """More activations than weights, and both too large to be replicated without need."""
    net = mx.sym.Variable("data")
    for i in range(2):
        net = mx.sym.FullyConnected(net, num_hidden=128, name=f"fc{i}")
        net = mx.sym.Activation(net, act_type="tanh", name=f"act{i}")
    net = mx.sym.FullyConnected(net, num_hidden=10, name="out")
    return Model(mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch"), {"data": (256, 128)}, 10)


def test_plans_with_room_to_replicate_equal_one_device():
    model = wide_mlp()
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", STEPS)
    executor = bind_partitioned(model, WORKERS, "float64", memory_limit="1 GB")
    plan, large = executor.partition.plan, executor.partition.graph.tensors
    assert any(None in plan.tensors[t.name] for t in large if t.size_bytes >= REPLICATION_LIMIT_BYTES)
    assert plan.communication_bytes < bind_partitioned(model, WORKERS, "float64").partition.plan.communication_bytes
    compare(executor, values, step, weights, STEPS)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("workers", [3, 4])
def test_plans_that_keep_what_they_fetch_equal_one_device(reference, name, workers):
    model, values, step, weights = reference(name, "float64")
    default = bind_partitioned(model, workers, "float64").partition
    fetching = bind_partitioned(model, workers, "float64", random_plan(default, seed=1)).partition
    worth = tuple(list_worth_keeping(fetching.choices))
    kept = replace(fetching.plan, kept=name_tensors(fetching.problem.graph, worth))
    executor = bind_partitioned(model, workers, "float64", Plan.from_json(kept.to_json()))
    assert executor.partition.plan.kept == kept.kept
    assert executor.partition.plan.communication_bytes < fetching.plan.communication_bytes
    compare(executor, values, step, weights, STEPS)


def test_plans_that_share_no_fetch_equal_one_device():
    model, workers = from_benchmarks(rnn(1, 256, 128, time_steps=3, features=256, classes=10), classes=10), 8
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", STEPS)
    sharing = bind_partitioned(model, workers, "float64").partition
    worth = name_tensors(sharing.problem.graph, list_worth_rereading(sharing.choices))
    assert "lstm0_h2h_weight" in worth
    reread = Plan.from_json(replace(sharing.plan, reread=worth).to_json())
    executor = bind_partitioned(model, workers, "float64", reread)
    assert executor.partition.plan.reread == worth
    assert executor.partition.plan.communication_bytes > sharing.plan.communication_bytes
    compare(executor, values, step, weights, STEPS)


def test_what_is_kept_or_read_again_has_to_be_there_and_to_stay_as_it_is():
    model = MODELS["residual_cnn"]()
    partition = bind_partitioned(model, 2, "float64").partition
    with pytest.raises(PlanError, match="nothing is kept, but not in the graph"):
        bind_partitioned(model, 2, "float64", replace(partition.plan, kept=("nothing",)))
    with pytest.raises(PlanError, match="nothing is read again, but not in the graph"):
        bind_partitioned(model, 2, "float64", replace(partition.plan, reread=("nothing",)))
    with pytest.raises(PlanError, match=r"kept or read again, not both:\n.*data"):
        bind_partitioned(model, 2, "float64", replace(partition.plan, kept=("data",), reread=("data",)))
