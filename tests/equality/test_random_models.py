"""Models of random layers under the default plan and a random one, at a random number of workers."""

from __future__ import annotations

import random

import pytest
from comparison import compare
from random_models import random_model
from training import bind_partitioned, random_plan, random_values, run_single

WORKERS = (2, 3, 4, 5, 6, 8, 12)


@pytest.mark.parametrize("seed", range(100))
def test_random_model(seed):
    model = random_model(seed)
    values = random_values(model, "float64", seed)
    step, weights = run_single(model, values, "float64", 1)
    workers = random.Random(seed).choice(WORKERS)
    default = bind_partitioned(model, workers, "float64")
    for executor in (default, bind_partitioned(model, workers, "float64", random_plan(default.partition, seed))):
        compare(executor, values, step, weights, 1)
