"""What all equality tests share: one device's run of a model, and the rules by which a partitioned run is held against it."""

import os
from collections.abc import Callable, Iterable

import numpy as np

from tests.models.plain import Model
from tests.shared.random_plans import random_plan
from tests.shared.training import (
    bind_partitioned,
    check_graph,
    largest_error,
    permute_batch,
    random_values,
    run_partitioned,
    run_single,
    weight_error,
)
from tofu.compare.numbers import compare_numbers

WORKERS = (2, 3, 4, 6, 8)
LEAST_RANDOM_PLANS = int(os.environ.get("TOFU_RANDOM_PLANS", "0"))  # of each model and number of workers
STEPS = 5
RANDOM_STEPS = 2  # under a random plan, which fetches almost everything
STEP_TOLERANCE = 1e-10
WEIGHT_TOLERANCE = 1e-8


def spread_workers(names: Iterable[str]) -> list[tuple[str, int]]:
    """Two numbers of workers for each model, so that all of WORKERS occur among any three neighbours."""
    return [(name, WORKERS[(2 * i + j) % len(WORKERS)]) for i, name in enumerate(names) for j in (0, 1)]


class References:
    """Model name, type, steps -> the model, its values, and one device's first step and weights after those steps; each made once."""

    def __init__(self, build: Callable[[str, str], Model]) -> None:
        self.build = build
        self.made: dict[tuple[str, str, int], tuple] = {}
        self.spreads: dict[str, float] = {}

    def __call__(self, name: str, dtype: str, steps: int = STEPS) -> tuple:
        key = name, dtype, steps
        if key not in self.made:
            model = self.build(name, dtype)
            values = random_values(model, dtype)
            self.made[key] = model, values, *run_single(model, values, dtype, steps)
        return self.made[key]

    def spread(self, name: str) -> float:
        """How far one device is from itself in float32 where the batch is permuted."""
        if name not in self.spreads:
            model, values, _, weights = self(name, "float32")
            _, permuted = run_single(model, permute_batch(model, values), "float32", STEPS)
            self.spreads[name] = weight_error(permuted, weights)
        return self.spreads[name]


def compare(executor, values, step, weights, steps: int = STEPS, tolerance: float = STEP_TOLERANCE) -> None:
    """The same numbers as one device, and bytes that agree between plan, emitted graph and running kernels."""
    check_graph(executor.partition)
    found, found_weights, moved = run_partitioned(executor, values, steps)
    assert moved == executor.partition.plan.communication_bytes
    assert [one for one in compare_numbers(found, step) if not one.error < tolerance] == []
    assert weight_error(found_weights, weights) < max(tolerance, WEIGHT_TOLERANCE)


def compare_random_plans(reference: References, name: str, workers: int, plans: int) -> None:
    """The same for plans drawn at random, of seeds from 0 on."""
    model, values, step, weights = reference(name, "float64", RANDOM_STEPS)
    default = bind_partitioned(model, workers, "float64")
    for seed in range(max(plans, LEAST_RANDOM_PLANS)):
        plan = random_plan(default.partition, seed)
        compare(bind_partitioned(model, workers, "float64", plan), values, step, weights, RANDOM_STEPS)


def compare_random_plans_in_float32(model: Model, workers: int, plans: int) -> None:
    """One step in float32, under plans drawn at random: its kernels are others than those of float64."""
    values = random_values(model, "float32")
    step, _ = run_single(model, values, "float32")
    default = bind_partitioned(model, workers, "float32")
    for seed in range(max(plans, LEAST_RANDOM_PLANS)):
        executor = bind_partitioned(model, workers, "float32", random_plan(default.partition, seed))
        found, _, moved = run_partitioned(executor, values)
        assert moved == executor.partition.plan.communication_bytes, seed
        assert largest_error(found, step) < 1e-5, seed


def compare_in_float32(reference: References, name: str, workers: int) -> None:
    """In float32: at most four times as far from one device as one device is from itself under a permuted batch; where that makes no
    difference, one rounding.
    """
    model, values, _, weights = reference(name, "float32")
    _, found_weights, _ = run_partitioned(bind_partitioned(model, workers, "float32"), values, STEPS)
    assert weight_error(found_weights, weights) <= max(4 * reference.spread(name), float(np.finfo(np.float32).eps))
