"""The plans of the baselines train like one device, and move the bytes that they say."""

import mxnet as mx
import pytest
from comparison import STEPS, References, compare
from models import Model, residual_cnn
from training import bind_partitioned, random_values, run_single

from benchmarks.models import rnn, transformer
from tofu.plan import REPLICATION_LIMIT_BYTES
from tofu.search.algorithms import BASELINES

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
