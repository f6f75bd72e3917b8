"""A mixture of experts: tokens are sent to experts and come back with the numbers of one device, under every plan."""

import numpy as np
import pytest

from tests.equality.comparison import compare
from tests.models.paper import transformer
from tests.models.plain import Model
from tests.shared.random_plans import random_plan
from tests.shared.training import bind_partitioned, random_values, run_single

WORDS, TOLERANCE = 24, 1e-11


@pytest.mark.parametrize("workers", [2, 4, 6])
def test_plans_equal_one_device(workers):
    made = transformer(2, 16, 2, 4, length=6, vocabulary=WORDS, experts=4, dtype="float64")
    words = np.random.RandomState(2).randint(0, WORDS, made.shapes["data"])
    model = Model(made.symbol, made.shapes, WORDS, given={"data": words})
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", 2)
    assert np.abs(weights["layer1_narrow_weight"] - values["layer1_narrow_weight"]).max() > 1e-6
    default = bind_partitioned(model, workers, "float64")
    compare(default, values, step, weights, 2, TOLERANCE)
    for seed in range(3):
        plan = random_plan(default.partition, seed)
        compare(bind_partitioned(model, workers, "float64", plan), values, step, weights, 2, TOLERANCE)
