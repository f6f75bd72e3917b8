"""Max pooling and its gradient with different splits in float32, where MXNet passes a packed workspace between them."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.mxnet.compare.runs import run_step
from tofu.mxnet.compare.values import draw_values

SHAPES = {"data": (4, 4, 8, 8), "softmax_label": (4,)}


def model():
    data = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, name="conv")
    pooled = mx.sym.Pooling(data, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(pooled, num_hidden=5, name="fc"), name="softmax")


@pytest.mark.parametrize(("forward", "backward"), [("b", "c"), ("c", "b"), ("c", "c")])
def test_pooling_gradients_equal_one_device(forward, backward):
    hints = {"pool": forward, "pool_backward": backward}
    partitioned = tofu.partition(model(), ngpus=2, hints=hints, cache=False, **SHAPES)
    values = draw_values(model(), SHAPES)
    found, expected = (
        run_step(symbol, SHAPES, values, {"data": "write"}).training.gradients["data"]
        for symbol in (partitioned, model())
    )
    # Sums in single precision. A wrong workspace causes errors as large as the numbers.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)
