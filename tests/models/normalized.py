from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx

from tests.models.plain import PlainModel


def convolution(data: Any, filters: int, kernel: int, stride: int, name: str) -> Any:
    window = {"kernel": (kernel, kernel), "pad": (kernel // 2, kernel // 2), "stride": (stride, stride)}
    return mx.sym.Convolution(data, num_filter=filters, no_bias=True, name=name, **window)


def batch_norm(data: Any, name: str, **attributes: Any) -> Any:
    return mx.sym.BatchNorm(data, **{"fix_gamma": False, "eps": 2e-5, "momentum": 0.9, **attributes}, name=name)


def relu(data: Any, name: str) -> Any:
    return mx.sym.Activation(data, act_type="relu", name=name)


def classify(net: Any, classes: int = 7) -> Any:
    net = mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type="avg", name="pool")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net, name="flat"), num_hidden=classes, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch")


def resnet_v1(batch: int = 6) -> PlainModel:
    net = relu(batch_norm(convolution(mx.sym.Variable("data"), 8, 3, 1, "stem"), "bn", fix_gamma=True), "relu")
    for i, stride in enumerate((1, 2)):
        body = relu(batch_norm(convolution(net, 5, 1, 1, f"conv{i}a"), f"bn{i}a"), f"relu{i}a")
        body = relu(batch_norm(convolution(body, 5, 3, stride, f"conv{i}b"), f"bn{i}b"), f"relu{i}b")
        body = batch_norm(convolution(body, 8 + 4 * i, 1, 1, f"conv{i}c"), f"bn{i}c")
        if i:
            net = batch_norm(convolution(net, 12, 1, stride, f"project{i}"), f"bn{i}p")
        net = relu(net + body, f"relu{i}")
    return PlainModel(classify(net), {"data": (batch, 3, 9, 9)}, 7)


def resnet_v2(batch: int = 7) -> PlainModel:
    net = batch_norm(mx.sym.Variable("data"), "bn_data", fix_gamma=True)
    net = convolution(net, 6, 3, 1, "stem")
    for i, stride in enumerate((2, 1)):
        pre = relu(batch_norm(net, f"bn{i}a"), f"relu{i}a")
        body = relu(batch_norm(convolution(pre, 4, 1, 1, f"conv{i}a"), f"bn{i}b"), f"relu{i}b")
        body = relu(batch_norm(convolution(body, 4, 3, stride, f"conv{i}b"), f"bn{i}c"), f"relu{i}c")
        body = convolution(body, 10, 1, 1, f"conv{i}c")
        net = body + (net if i else convolution(pre, 10, 1, stride, f"project{i}"))
    net = relu(batch_norm(net, "bn_last"), "relu_last")
    return PlainModel(classify(net), {"data": (batch, 3, 8, 8)}, 7)


def attention(batch: int = 6) -> PlainModel:
    data = mx.sym.Variable("data")
    query, key, value = (
        mx.sym.FullyConnected(data, num_hidden=8, flatten=False, no_bias=True, name=name)
        for name in ("query", "key", "value")
    )
    scores = mx.sym.batch_dot(query, key, transpose_b=True, name="scores")
    weights = mx.sym.softmax(scores, axis=-1, temperature=2.0, name="weights")
    net = mx.sym.batch_dot(weights, value, name="attended")
    net = mx.sym.FullyConnected(net, num_hidden=9, flatten=False, name="out")
    logarithms = mx.sym.log_softmax(net, axis=2, name="logarithms")
    return PlainModel(mx.sym.MakeLoss(0 - mx.sym.mean(logarithms), name="loss"), {"data": (batch, 9, 8)}, 9)


NORMALIZED: dict[str, Callable[[], PlainModel]] = {model.__name__: model for model in (resnet_v1, resnet_v2, attention)}
