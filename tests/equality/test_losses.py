"""Losses whose gradients MXNet divides by a size, in single precision: each part has the constant that the whole has, to the last digit."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.errors import PlanError

SCALES = (1.0, 0.1, 1.3432430)


def find_gradients(loss, axis, shapes, workers=3, dtype="float64"):
    """By the data: of one device, and of workers that split the gradient along `axis`, or as the planner does."""
    rng = np.random.RandomState(0)
    values = {name: rng.uniform(-1, 1, shape) for name, shape in shapes.items()}
    types = dict.fromkeys(shapes, dtype)
    whole = loss.simple_bind(mx.cpu(), grad_req={"data": "write"}, type_dict=types, **shapes)
    for name, value in values.items():
        whole.arg_dict[name][:] = value
    symbol = tofu.partition(loss, workers, hints={"loss_backward": axis} if axis else {})
    parts = tofu.bind(symbol, type_dict=types, differentiated_inputs=["data"], **shapes)
    for name, value in values.items():
        parts.variables[name].scatter(mx.nd.array(value, dtype=dtype))
    for executor in (whole, parts):
        executor.forward(is_train=True)
        executor.backward()
    return whole.grad_dict["data"].asnumpy(), parts.gradient("data").gather().asnumpy()


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((48,), "b"), ((9,), None), ((3, 21), "b"), ((3, 21), "s0"), ((7, 5), "b"), ((6, 5, 4), "b"), ((6, 5, 4), "s0")],
)
def test_a_loss_divided_by_the_batch(shape, axis):
    for scale in SCALES:
        loss = mx.sym.MakeLoss(mx.sym.Variable("data"), grad_scale=scale, normalization="batch", name="loss")
        np.testing.assert_array_equal(*find_gradients(loss, axis, {"data": shape}))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["Linear", "Logistic", "MAE"])
@pytest.mark.parametrize(("outputs", "workers"), [(15, 3), (42, 3), (63, 3), (75, 5), (72, 8), (4, 4), (63, 2)])
def test_a_regression_divided_by_the_outputs_of_a_sample(kind, outputs, workers, dtype):
    """Of 63 and 75, no scale of single precision gives what it should when a part's outputs divide it."""
    operator = getattr(mx.sym, f"{kind}RegressionOutput")
    for scale in (*SCALES, outputs):
        loss = operator(mx.sym.Variable("data"), mx.sym.Variable("label"), grad_scale=scale, name="loss")
        for axis in ("b", "s0"):
            shapes = dict.fromkeys(("data", "label"), (8, outputs))
            if axis == "b" or outputs % workers == 0:
                np.testing.assert_array_equal(*find_gradients(loss, axis, shapes, workers, dtype))


def test_a_regression_runs_in_parts_where_a_sample_is_split_alone():
    loss = mx.sym.LinearRegressionOutput(mx.sym.Variable("data"), mx.sym.Variable("label"), name="loss")
    inner = []
    for axis in ("b", "s0"):
        symbol = tofu.partition(loss, 3, hints={"loss_backward": axis})
        bound = tofu.bind(symbol, differentiated_inputs=["data"], data=(6, 63), label=(6, 63))
        operators = bound.partition.problem.graph.operators
        inner.append({operator.name for operator in operators if operator.is_inner})
    assert inner == [set(), {"loss_backward/difference"}]
