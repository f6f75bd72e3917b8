"""Losses whose gradients MXNet divides by a size, in single precision: each part has the constant that the whole has, to the last digit."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.errors import PlanError

SCALES = (1.0, 0.1, 1.3432430)


def find_gradients(loss, axis, shapes, workers=3):
    """By the data: of one device, and of workers that split the gradient along `axis`, or as the planner does."""
    values = np.random.RandomState(0).uniform(-1, 1, shapes["data"])
    types = dict.fromkeys(shapes, "float64")
    whole = loss.simple_bind(mx.cpu(), grad_req={"data": "write"}, type_dict=types, **shapes)
    whole.arg_dict["data"][:] = values
    symbol = tofu.partition(loss, workers, hints={"loss_backward": axis} if axis else {})
    parts = tofu.bind(symbol, type_dict=types, differentiated_inputs=["data"], **shapes)
    parts.variables["data"].scatter(mx.nd.array(values, dtype="float64"))
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


def find_regression_gradients(scale, outputs, workers=3):
    loss = mx.sym.LinearRegressionOutput(
        mx.sym.Variable("data"), mx.sym.Variable("label"), grad_scale=scale, name="loss"
    )
    return find_gradients(loss, "s0", dict.fromkeys(("data", "label"), (2, outputs)), workers)


@pytest.mark.parametrize("outputs", [15, 21, 30, 42])
def test_a_regression_divided_by_the_outputs_of_a_sample(outputs):
    """Single precision has scales that give the quotient of these sizes."""
    np.testing.assert_array_equal(*find_regression_gradients(0.3, outputs))


@pytest.mark.parametrize("outputs", [63, 75])
def test_a_regression_of_other_sizes(outputs):
    """Single precision has none for these."""
    whole, parts = find_regression_gradients(0.1, outputs)
    assert (whole != parts).any()
    np.testing.assert_allclose(parts, whole, rtol=2**-23, atol=0)


def test_a_regression_over_a_power_of_two_of_workers():
    np.testing.assert_array_equal(*find_regression_gradients(0.1, 72, workers=8))


@pytest.mark.parametrize("normalization", ["null", "batch"])
@pytest.mark.parametrize("axis", ["b", "s0", "s1", "k"])
def test_softmax_divided_by_positions(axis, normalization):
    """To rounding of double precision: a part takes exponentials in an order of its own."""
    loss = mx.sym.SoftmaxOutput(
        mx.sym.Variable("data"),
        mx.sym.Variable("label"),
        grad_scale=0.1,
        multi_output=True,
        normalization=normalization,
        name="loss",
    )
    whole, parts = find_gradients(loss, axis, {"data": (7, 3, 9, 7), "label": (7, 9, 7)})
    np.testing.assert_allclose(parts, whole, rtol=1e-12, atol=0)


@pytest.mark.parametrize("axis", ["s0", "k"])
def test_softmax_that_takes_a_head_gradient_is_split_by_batch_alone(axis):
    """No parts take the place of that kernel."""
    loss = mx.sym.SoftmaxOutput(
        mx.sym.Variable("data"), mx.sym.Variable("label"), multi_output=True, out_grad=True, name="loss"
    )
    shapes = {"data": (4, 4, 6, 8), "label": (4, 6, 8)}
    np.testing.assert_allclose(*find_gradients(loss, "b", shapes, workers=2), rtol=1e-12, atol=0)
    with pytest.raises(PlanError, match="is not an axis it can be split along"):
        find_gradients(loss, axis, shapes, workers=2)


@pytest.mark.parametrize("axis", ["b0", "b1", "k"])
def test_softmax_divided_by_rows(axis):
    loss = mx.sym.SoftmaxOutput(
        mx.sym.Variable("data"),
        mx.sym.Variable("label"),
        grad_scale=0.1,
        preserve_shape=True,
        normalization="batch",
        name="loss",
    )
    whole, parts = find_gradients(loss, axis, {"data": (7, 3, 5), "label": (7, 3)})
    np.testing.assert_allclose(parts, whole, rtol=1e-12, atol=0)
