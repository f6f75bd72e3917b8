from dataclasses import replace

import mxnet as mx
import pytest

from tests.equality.comparison import compare_split
from tests.models.paper import rnn, transformer
from tests.models.plain import PlainModel, residual_cnn
from tests.shared.random_plans import random_plan
from tests.shared.training import bind_partitioned
from tofu.errors import PlanError
from tofu.plan import REPLICATION_LIMIT_BYTES, Plan
from tofu.search.algorithms import BASELINES
from tofu.search.choices import name_tensors
from tofu.search.cost import list_worth_keeping, list_worth_rereading

WORKERS, STEPS = 4, 2


def to_model(made, classes: int) -> PlainModel:
    return PlainModel(made.symbol, dict(made.shapes), classes)


MODELS = {
    "transformer": lambda: to_model(
        transformer(1, 16, 4, 4, length=4, vocabulary=16, heads_first=True, dtype="float64"), classes=16
    ),
    "rnn": lambda: to_model(rnn(1, 12, 4, time_steps=2, features=8, classes=10), classes=10),
    "residual_cnn": residual_cnn,
}
CASES = [(name, algorithm) for name in MODELS for algorithm in BASELINES if algorithm != "megatron"]


@pytest.mark.parametrize(("name", "algorithm"), [*CASES, ("transformer", "megatron")])
def test_baselines_equal_one_device(name, algorithm):
    executor = compare_split(MODELS[name](), WORKERS, steps=STEPS, algorithm=algorithm)
    assert executor.partition.plan.algorithm == algorithm


def wide_mlp() -> PlainModel:
    """Return a model with more activations than weights. Both are too large to be replicated by default."""
    net = mx.sym.Variable("data")
    for i in range(2):
        net = mx.sym.FullyConnected(net, num_hidden=128, name=f"fc{i}")
        net = mx.sym.Activation(net, act_type="tanh", name=f"act{i}")
    net = mx.sym.FullyConnected(net, num_hidden=10, name="out")
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch"), {"data": (256, 128)}, 10)


def test_plans_with_room_to_replicate_equal_one_device():
    model = wide_mlp()
    executor = compare_split(model, WORKERS, steps=STEPS, memory_limit="1 GB")
    plan, large = executor.partition.plan, executor.partition.graph.tensors
    assert any(None in plan.tensors[t.name] for t in large if t.size_bytes >= REPLICATION_LIMIT_BYTES)
    assert plan.communication_bytes < bind_partitioned(model, WORKERS, "float64").partition.plan.communication_bytes


@pytest.mark.parametrize(("name", "workers"), [("transformer", 4), ("rnn", 3), ("residual_cnn", 4)])
def test_plans_that_keep_fetched_tensors_equal_one_device(name, workers):
    model = MODELS[name]()
    default = bind_partitioned(model, workers, "float64").partition
    fetching = bind_partitioned(model, workers, "float64", random_plan(default, seed=1)).partition
    worth = tuple(list_worth_keeping(fetching.choices))
    kept = replace(fetching.plan, kept=name_tensors(fetching.problem.graph, worth))
    executor = compare_split(model, workers, steps=STEPS, plan=Plan.from_json(kept.to_json()))
    assert executor.partition.plan.kept == kept.kept
    assert executor.partition.plan.communication_bytes < fetching.plan.communication_bytes


def test_plans_that_reread_tensors_equal_one_device():
    model, workers = to_model(rnn(1, 256, 128, time_steps=3, features=256, classes=10), classes=10), 8
    sharing = bind_partitioned(model, workers, "float64").partition
    worth = name_tensors(sharing.problem.graph, list_worth_rereading(sharing.choices))
    assert "lstm0_h2h_weight" in worth
    reread = Plan.from_json(replace(sharing.plan, reread=worth).to_json())
    executor = compare_split(model, workers, steps=STEPS, plan=reread)
    assert executor.partition.plan.reread == worth
    assert executor.partition.plan.communication_bytes > sharing.plan.communication_bytes


def test_invalid_kept_and_reread_tensors_are_named():
    model = MODELS["residual_cnn"]()
    partition = bind_partitioned(model, 2, "float64").partition
    with pytest.raises(PlanError, match="nothing is kept, but not in the graph"):
        bind_partitioned(model, 2, "float64", replace(partition.plan, kept=("nothing",)))
    with pytest.raises(PlanError, match="nothing is read again, but not in the graph"):
        bind_partitioned(model, 2, "float64", replace(partition.plan, reread=("nothing",)))
    with pytest.raises(PlanError, match=r"kept or read again, not both:\n.*data"):
        bind_partitioned(model, 2, "float64", replace(partition.plan, kept=("data",), reread=("data",)))
