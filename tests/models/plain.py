"""Small models for any batch and type, with odd extents on purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import mxnet as mx
import numpy as np


@dataclass(frozen=True)
class PlainModel:
    """A symbol with the shapes of its inputs and the range of its integer labels.

    `given` are inputs that are not drawn. `is_single_precision` is set if MXNet has kernels for single precision only.
    """

    symbol: Any
    shapes: dict[str, tuple[int, ...]]
    classes: int
    given: Mapping[str, np.ndarray] = field(default_factory=dict)
    is_single_precision: bool = False


def mlp(batch: int = 12) -> PlainModel:
    net = mx.sym.Variable("data")
    for i, width in enumerate((18, 13)):
        net = mx.sym.FullyConnected(net, num_hidden=width, name=f"fc{i}")
        net = mx.sym.Activation(net, act_type="relu" if i % 2 else "tanh", name=f"act{i}")
    net = mx.sym.FullyConnected(net, num_hidden=10, name="out")
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch"), {"data": (batch, 17)}, 10)


def shared_mlp(batch: int = 10, depth: int = 10) -> PlainModel:
    width = 16
    weights = [mx.sym.Variable("even_weight"), mx.sym.Variable("odd_weight")]
    biases = [mx.sym.Variable("even_bias"), mx.sym.Variable("odd_bias")]
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=width, name="in")
    for i in range(depth):
        skip = net
        which = 0 if i < 8 else i % 2
        net = mx.sym.FullyConnected(net, weight=weights[which], bias=biases[which], num_hidden=width, name=f"fc{i}")
        net = mx.sym.Activation(net, act_type="tanh", name=f"act{i}")
        net = 0.5 * net + skip
    net = mx.sym.FullyConnected(net, num_hidden=9, no_bias=True, name="out")
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (batch, 14)}, 9)


def plain_cnn(batch: int = 9) -> PlainModel:
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=12, pad=(1, 1), name="conv0")
    net = mx.sym.LeakyReLU(net, act_type="leaky", slope=0.1, name="act0")
    net = mx.sym.Convolution(net, kernel=(3, 3), num_filter=16, num_group=4, stride=(2, 2), pad=(1, 1), name="conv1")
    net = mx.sym.Activation(net, act_type="sigmoid", name="act1")
    net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool1")
    net = mx.sym.Convolution(net, kernel=(3, 3), num_filter=10, dilate=(2, 2), pad=(2, 2), no_bias=True, name="conv2")
    net = mx.sym.Pooling(net, kernel=(3, 3), stride=(1, 1), pad=(1, 1), pool_type="avg", name="pool2")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net, name="flat"), num_hidden=11, name="fc")
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (batch, 5, 13, 13)}, 11)


def residual_cnn(batch: int = 8, filters: int = 8, blocks: int = 2) -> PlainModel:
    convolve = partial(mx.sym.Convolution, kernel=(3, 3), pad=(1, 1))
    net = convolve(mx.sym.Variable("data"), num_filter=filters, name="stem")
    for i in range(blocks):
        window, width = {"stride": (2, 2) if i else (1, 1), "no_bias": True}, filters * (i + 1)
        body = mx.sym.Activation(net, act_type="relu", name=f"relu{i}a")
        body = convolve(body, num_filter=width, **window, name=f"conv{i}a")
        body = mx.sym.Activation(body, act_type="relu", name=f"relu{i}b")
        body = convolve(body, num_filter=width, no_bias=True, name=f"conv{i}b")
        if i:
            net = mx.sym.Convolution(net, kernel=(1, 1), num_filter=width, **window, name=f"project{i}")
        net = net + body
    net = mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type="avg", name="pool")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net, name="flat"), num_hidden=10, name="fc")
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (batch, 3, 9, 9)}, 10)


MODELS: dict[str, Callable[[], PlainModel]] = {
    model.__name__: model for model in (mlp, shared_mlp, plain_cnn, residual_cnn)
}


def upsampling_cnn(batch: int = 4) -> PlainModel:
    net = mx.sym.Deconvolution(mx.sym.Variable("data"), kernel=(3, 3), stride=(2, 2), num_filter=6, name="up")
    net = mx.sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=6, name="conv")
    net = mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type="max", name="pool")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net, name="flat"), num_hidden=5, name="fc")
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (batch, 6, 5, 5)}, 5)
