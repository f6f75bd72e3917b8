"""Every operator that has a lowering, in every case that is verified, along each of its axes forward and backward, in uneven parts."""

from __future__ import annotations

from itertools import product

import mxnet as mx
import pytest

import tofu
from tests.equality.comparison import STEP_TOLERANCE, compare
from tests.equality.layer_models import single_layer
from tests.models.plain import Model
from tests.shared.random_plans import feasible_axes
from tests.shared.training import bind_partitioned, random_values, run_single
from tofu.mxnet.lowerings import LOWERINGS
from tofu.mxnet.verify.cases import load_cases

CASES = [
    case
    for case in load_cases()
    if not LOWERINGS.keys().isdisjoint((case.op, f"_backward_{case.op}")) and hasattr(mx.sym, case.op)
]


def list_hints(partition):
    """The axes of the layer and its gradient, if there is one; both have one choice where MXNet's kernels share a state."""
    graph = partition.searched.problem.graph
    names = [name for name in ("layer", "layer_backward") if name in graph.operator_index]
    is_shared = any(graph.operators[graph.operator_index[name]].stateful for name in names)
    for axes in product(*(feasible_axes(partition, name) for name in names)):
        if not is_shared or len(set(axes)) == 1:
            yield dict(zip(names, axes, strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_axis(case):
    is_single = any(getattr(numbers, "dtype", "") == "float32" for numbers in case.numbers)
    dtype, tolerance = ("float32", 1e-5) if is_single else ("float64", STEP_TOLERANCE)
    model = single_layer(case, dtype)
    values = random_values(model, dtype)
    step, weights = run_single(model, values, dtype, 1)
    partition = bind_partitioned(model, 3, dtype).partition
    all_hints = list(list_hints(partition))
    assert all_hints
    for hints in all_hints:
        compare(bind_partitioned(model, 3, dtype, hints=hints), values, step, weights, 1, tolerance)


@pytest.mark.parametrize(("dtype", "is_lowered"), [("float16", False), ("float32", True)])
def test_sums_in_half_precision_are_left_to_the_operator(dtype, is_lowered):
    data = mx.sym.Variable("data", dtype=dtype)
    net = mx.sym.GroupNorm(data, mx.sym.Variable("gamma"), mx.sym.Variable("beta"), num_groups=2, name="layer")
    searched = tofu.partition(net, 2, data=(4, 6, 5)).planned().searched.problem.graph
    assert ("layer/mean" in searched.operator_index) == is_lowered


def test_a_gradient_in_parts_reads_no_less_than_its_kernel():
    """Of the variance of moments the kernel takes the shape alone, and the parts nothing, so it may lie in any way."""
    net = mx.sym.moments(mx.sym.Variable("scale_weight", shape=(5, 2, 6), dtype="float64"), axes=(1,), name="moments")[
        0
    ]
    model = Model(mx.sym.MakeLoss(mx.sym.sin(net)), {}, 2)
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", 1)
    hints = {"moments_output0": 1, "moments_output1": (0, 1), "moments_backward": "i2"}
    compare(bind_partitioned(model, 6, "float64", hints=hints), values, step, weights, 1)
