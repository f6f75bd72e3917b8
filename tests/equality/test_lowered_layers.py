"""Every lowered operator, in every verified case, split along each of its axes into uneven parts, equals one device."""

from __future__ import annotations

from itertools import cycle, islice, product

import mxnet as mx
import numpy as np
import pytest

import tofu
from tdl_ops.mxnet.case import Case
from tests.equality.comparison import STEP_TOLERANCE, compare, compare_split
from tests.models.plain import PlainModel
from tests.shared.random_plans import feasible_axes
from tests.shared.training import bind_partitioned, random_values, run_single
from tofu.mxnet.compare.runs import run_step
from tofu.mxnet.lowerings import LOWERINGS
from tofu.mxnet.verify.cases import load_cases
from tofu.verification.numbers import Fixed

WITHOUT_GRADIENT = ("batch_take", "_contrib_MultiProposal")  # test_positions.py and test_counts.py test them


def find_creator(op: str):
    contributed = op.removeprefix("_contrib_")
    return getattr(mx.sym if contributed == op else mx.sym.contrib, contributed, None)


CASES = [
    case
    for case in load_cases()
    if case.op not in WITHOUT_GRADIENT
    and not LOWERINGS.keys().isdisjoint((case.op, f"_backward_{case.op}"))
    and find_creator(case.op) is not None
]


def single_layer(case: Case, dtype: str = "float64") -> PlainModel:
    """Build a model around one operator, called `layer`, such that all of its gradients count.

    Inputs are products, and gradients of outputs differ by element. The losses ignore head gradients: MXNet may write the gradient over
    an output that the model does not return.
    """
    create = find_creator(case.op)
    names = create(name="layer", **case.attributes).list_inputs()
    given = {}
    for drawn, numbers, name in zip(case.draw_inputs(), case.numbers, names, strict=True):
        is_label = name.endswith("label") or isinstance(numbers, Fixed) or numbers.is_whole
        given[f"input{len(given)}_{'label' if is_label else 'value'}"] = drawn
    variables = [mx.sym.Variable(name, shape=drawn.shape, dtype=dtype) for name, drawn in given.items()]
    states = create(*variables, **case.attributes).list_auxiliary_states()
    inputs = [v if v.name in states or v.name.endswith("label") else 1.5 * v for v in variables]
    types = [drawn.dtype for drawn in given.values()]
    inputs = [mx.sym.Cast(v, dtype=t.name) if t.kind == "i" else v for v, t in zip(inputs, types, strict=True)]
    outputs = create(*inputs, name="layer", **case.attributes)
    ends = case.op == "SoftmaxOutput"
    losses = [output if ends else mx.sym.MakeLoss(mx.sym.sin(output)) for output in outputs]
    shapes = {name: drawn.shape for name, drawn in given.items() if name.endswith("label")}
    return PlainModel(mx.sym.Group(losses), shapes, 2, given=given)


def list_hints(partition):
    """Yield hints in which every axis of the layer and of its gradient occurs.

    If MXNet's kernels share a state, both get the same axis.
    """
    graph = partition.searched.problem.graph
    names = [name for name in ("layer", "layer_backward") if name in graph.operator_index]
    is_shared = any(graph.operators[graph.operator_index[name]].stateful for name in names)
    choices = [feasible_axes(partition, name) for name in names]
    if is_shared:
        pairs = [axes for axes in product(*choices) if len(set(axes)) == 1]
    else:
        pairs = islice(zip(*map(cycle, choices), strict=True), max(map(len, choices)))
    for axes in pairs:
        yield dict(zip(names, axes, strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_axis_equals_one_device(case):
    is_single = any(getattr(numbers, "dtype", "") == "float32" for numbers in case.numbers)
    dtype = "float32" if is_single else "float64"
    model = single_layer(case, dtype)
    values = random_values(model, dtype)
    step, weights = run_single(model, values, dtype, 1)
    partition = bind_partitioned(model, 3, dtype).partition
    all_hints = list(list_hints(partition))
    assert all_hints
    for hints in all_hints:
        compare(bind_partitioned(model, 3, dtype, hints=hints), values, step, weights, 1, STEP_TOLERANCE[dtype])


@pytest.mark.parametrize(("dtype", "is_lowered"), [("float16", False), ("float32", True)])
def test_half_precision_is_not_lowered(dtype, is_lowered):
    data = mx.sym.Variable("data", dtype=dtype)
    normalized = mx.sym.GroupNorm(data, mx.sym.Variable("gamma"), mx.sym.Variable("beta"), num_groups=2, name="layer")
    pooled = mx.sym.Pooling(data, global_pool=True, kernel=(1,), pool_type="avg", name="pool")
    searched = tofu.partition(mx.sym.Group([normalized, pooled]), 2, data=(4, 6, 5)).planned().searched.problem.graph
    assert ("layer/mean" in searched.operator_index) == ("pool/sum" in searched.operator_index) == is_lowered


def test_a_gradient_in_parts_reads_no_less_than_its_kernel():
    """The kernel reads only the shape of the variance. The parts do not read the variance, so it may be split in any way."""
    weight = mx.sym.Variable("scale_weight", shape=(5, 2, 6), dtype="float64")
    net = mx.sym.moments(weight, axes=(1,), name="moments")[0]
    model = PlainModel(mx.sym.MakeLoss(mx.sym.sin(net)), {}, 2)
    compare_split(model, 6, {"moments_output0": 1, "moments_output1": (0, 1), "moments_backward": "i2"})


@pytest.mark.parametrize("element", [1e-30, 1e30])
def test_a_norm_has_numbers_whose_squares_overflow_or_underflow(element):
    split = tofu.partition(mx.sym.norm(mx.sym.Variable("x"), axis=0), 2, hints={"x": 0}, x=(4, 3))
    values = {"x": np.full((4, 3), element, "float32")}
    (found,) = run_step(split, {"x": (4, 3)}, values, {"x": "null"}).inference.outputs.values()
    np.testing.assert_allclose(found, np.full(3, 2 * element), rtol=1e-6)
