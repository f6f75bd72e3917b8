"""Every operator that has a lowering, in every case that is verified, along each of its axes forward and backward, in uneven parts."""

from __future__ import annotations

from itertools import product

import pytest
from comparison import compare
from layer_models import single_layer
from training import bind_partitioned, feasible_axes, random_values, run_single

from tofu.lowering.registry import lowered_operators
from tofu.verify.cases import load_cases

CASES = [case for case in load_cases() if case.op in lowered_operators()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_axis(case):
    model = single_layer(case)
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", 1)
    partition = bind_partitioned(model, 3, "float64").partition
    for axes in product(feasible_axes(partition, "layer"), feasible_axes(partition, "layer_backward")):
        executor = bind_partitioned(
            model, 3, "float64", hints=dict(zip(("layer", "layer_backward"), axes, strict=True))
        )
        compare(executor, values, step, weights, 1)
