"""The plans of the baselines train like one device, and move the bytes that they say."""

import pytest
from comparison import STEPS, References, compare
from models import Model, residual_cnn
from training import bind_partitioned

from benchmarks.models import rnn, transformer
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
