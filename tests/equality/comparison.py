"""Comparison of partitioned runs with one device: numbers, and the bytes that plan, emitted graph and kernels count."""

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from tests.models.plain import PlainModel
from tests.shared.random_plans import random_plan
from tests.shared.training import (
    Arrays,
    bind_partitioned,
    check_graph,
    random_values,
    run_partitioned,
    run_single,
    weight_error,
)
from tofu.compare.numbers import compare_numbers
from tofu.mxnet.compare.runs import run_step
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor

STEP_TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
WEIGHT_TOLERANCE = 1e-8
LEAST_RANDOM_PLANS = int(os.environ.get("TOFU_RANDOM_PLANS", "0"))


def compare(executor, values, step, weights, steps: int = 1, tolerance: float = STEP_TOLERANCE["float64"]) -> None:
    """Compare a partitioned run with one device's first step and final weights, and its transfers with the plan."""
    check_graph(executor.partition)
    found, found_weights, moved = run_partitioned(executor, values, steps)
    assert moved == executor.partition.plan.communication_bytes
    assert [difference for difference in compare_numbers(found, step) if not difference.error < tolerance] == []
    assert weight_error(found_weights, weights) < max(tolerance, WEIGHT_TOLERANCE)


def compare_split(
    model: PlainModel,
    workers: int,
    hints: Mapping[str, Any] | None = None,
    steps: int = 1,
    dtype: str = "float64",
    *,
    tolerance: float | None = None,
    values: Arrays | None = None,
    randoms: int = 0,
    taken: Any = None,
    **options: Any,
) -> ShardedExecutor:
    """Compare the plan of some hints, then random plans, with one device. Return the executor of the first plan."""
    values = random_values(model, dtype) if values is None else values
    tolerance = STEP_TOLERANCE[dtype] if tolerance is None else tolerance
    step, weights = run_single(model, values, dtype, steps)
    executor = bind_partitioned(model, workers, dtype, hints=hints, **options)
    compare(executor, values, step, weights, steps, tolerance)
    for seed in range(max(randoms, LEAST_RANDOM_PLANS) if randoms else 0):
        plan = random_plan(executor.partition, seed, taken)
        other = bind_partitioned(model, workers, dtype, plan, **options)
        compare(other, values, step, weights, steps, tolerance)
    return executor


def compare_symbols(symbol, split, shapes, values, requests, tolerance: float):
    single = run_step(symbol, shapes, values, requests).training
    found = run_step(split, shapes, values, requests)
    assert max(difference.error for difference in compare_numbers(found.training, single)) <= tolerance
    assert found.training_bytes == split.plan.communication_bytes
    assert np.abs(single.gradients["data"]).max() > 0
    return single


def list_operators(executor: ShardedExecutor) -> set[str]:
    return {operator.op for operator in executor.partition.problem.graph.operators}


@cache
def spread_workers(names: tuple[str, ...]) -> list[tuple[str, int]]:
    return [(name, (4, 6, 3, 8, 2)[i % 5]) for i, name in enumerate(names)]
