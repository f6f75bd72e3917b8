"""Losses whose gradients MXNet divides by a size in single precision. Each part must use the constant of the whole operator."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.errors import PlanError
from tofu.mxnet.compare.runs import run_step

DATA, LABEL = mx.sym.Variable("data"), mx.sym.Variable("label")
SCALES = (1.0, 0.1, 1.3432430)


def find_gradients(loss, axis, shapes, workers=3, dtype="float64"):
    """Return the gradient of the data on one device, then on several workers."""
    rng = np.random.RandomState(0)
    values = {name: rng.uniform(-1, 1, shape).astype(dtype) for name, shape in shapes.items()}
    parts = tofu.partition(loss, workers, hints={"loss_backward": axis} if axis else {})
    return [run_step(symbol, shapes, values, {"data": "write"}).training.gradients["data"] for symbol in (loss, parts)]


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((48,), "b"), ((9,), None), ((3, 21), "b"), ((3, 21), "s0"), ((7, 5), "b"), ((6, 5, 4), "b"), ((6, 5, 4), "s0")],
)
def test_a_loss_divided_by_the_batch(shape, axis):
    for scale in SCALES:
        loss = mx.sym.MakeLoss(DATA, grad_scale=scale, normalization="batch", name="loss")
        np.testing.assert_array_equal(*find_gradients(loss, axis, {"data": shape}))


@pytest.mark.parametrize(
    ("kind", "dtype", "outputs", "workers"),
    [
        *(("Linear", dtype, outputs, 3) for dtype in ("float16", "float32", "float64") for outputs in (15, 42, 63)),
        *(("Linear", "float64", *sizes) for sizes in ((75, 5), (72, 8), (4, 4), (63, 2))),
        *((kind, dtype, 75, 3) for kind in ("Logistic", "MAE") for dtype in ("float16", "float32")),
    ],
)
def test_a_regression_divided_by_the_outputs_of_a_sample(kind, dtype, outputs, workers):
    """No scale could exactly correct a division by a part's number of outputs instead of 63 or 75."""
    operator = getattr(mx.sym, f"{kind}RegressionOutput")
    for scale in (0.1, 1.3432430, outputs):
        loss = operator(DATA, LABEL, grad_scale=scale, name="loss")
        shapes = dict.fromkeys(("data", "label"), (workers, outputs))
        for axis in ("b", "s0") if scale == 0.1 else ("s0",):
            np.testing.assert_array_equal(*find_gradients(loss, axis, shapes, workers, dtype))


def test_a_regression_runs_in_parts_where_a_sample_is_split_alone():
    loss = mx.sym.LinearRegressionOutput(DATA, LABEL, name="loss")
    inner = []
    for axis in ("b", "s0"):
        symbol = tofu.partition(loss, 3, hints={"loss_backward": axis})
        bound = tofu.bind(symbol, differentiated_inputs=["data"], data=(6, 63), label=(6, 63))
        operators = bound.partition.problem.graph.operators
        inner.append({operator.name for operator in operators if operator.is_inner})
    assert inner == [set(), {"loss_backward/difference"}]


@pytest.mark.parametrize(
    ("axis", "options"),
    [
        *(
            (axis, {"multi_output": True, "normalization": normalization})
            for axis in ("b", "s0", "s1", "k")
            for normalization in ("null", "batch")
        ),
        *((axis, {"preserve_shape": True, "normalization": "batch"}) for axis in ("b0", "b1", "k")),
    ],
)
def test_softmax_divided_by_positions_or_rows(axis, options):
    """Parts sum exponentials in another order, so results are equal up to rounding."""
    loss = mx.sym.SoftmaxOutput(DATA, LABEL, grad_scale=0.1, name="loss", **options)
    is_flat = "preserve_shape" in options
    shapes = {"data": (7, 3, 5), "label": (7, 3)} if is_flat else {"data": (7, 3, 9, 7), "label": (7, 9, 7)}
    whole, parts = find_gradients(loss, axis, shapes)
    np.testing.assert_allclose(parts, whole, rtol=1e-12, atol=0)


@pytest.mark.parametrize("axis", ["s0", "k"])
def test_softmax_that_takes_a_head_gradient_is_split_by_batch_alone(axis):
    loss = mx.sym.SoftmaxOutput(DATA, LABEL, multi_output=True, out_grad=True, name="loss")
    shapes = {"data": (4, 4, 6, 8), "label": (4, 6, 8)}
    np.testing.assert_allclose(*find_gradients(loss, "b", shapes, workers=2), rtol=1e-12, atol=0)
    with pytest.raises(PlanError, match="is not an axis it can be split along"):
        find_gradients(loss, axis, shapes, workers=2)
