from dataclasses import replace

import pytest

from tests.equality.comparison import compare_split
from tests.models.paper import rnn, transformer
from tests.models.plain import PlainModel, residual_cnn
from tests.shared.random_plans import random_plan
from tests.shared.training import bind_partitioned
from tofu.plan import Plan
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
