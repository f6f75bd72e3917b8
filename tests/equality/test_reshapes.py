import mxnet as mx
import pytest

from tests.equality.comparison import compare_split
from tests.models.plain import PlainModel


def reshaped() -> PlainModel:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=10, flatten=False, name="wide")  # (24, 10)
    net = mx.sym.sin(mx.sym.Reshape(net, shape=(2, 12, 10), name="divide"))
    net = mx.sym.cos(mx.sym.Reshape(net, shape=(-3, 0), name="merge"))
    net = mx.sym.tanh(mx.sym.Reshape(net, shape=(2, 20, 6), name="regroup"))
    net = mx.sym.FullyConnected(net, num_hidden=7, name="out")  # of (2, 120)
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (24, 9), "softmax_label": (2,)}, 7)


def grouped() -> PlainModel:
    image = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=8, num_group=2, name="grouped")
    net = mx.sym.FullyConnected(mx.sym.sin(image), num_hidden=7, name="out")
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (2, 8, 5, 5)}, 7)


@pytest.mark.parametrize("workers", [4, 6, 8])
def test_reshapes_of_equal_contiguous_shards(workers):
    rows = {"divide": ("r0_0", *("r0_1",) * (2 if workers == 8 else 1))} if workers != 6 else None
    compare_split(reshaped(), workers, rows, randoms=6)


@pytest.mark.parametrize("workers", [4, 8])
def test_channels_within_a_group(workers):
    compare_split(grouped(), workers, {"grouped": ("g", *("co",) * (2 if workers == 8 else 1))}, randoms=6)
