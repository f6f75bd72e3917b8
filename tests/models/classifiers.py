"""Image classifiers as MXNet's users write them with symbols: the published layers, few filters, small images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx

from tests.models.normalized import batch_norm, relu
from tests.models.plain import Model

CLASSES = 7


def classify(net: Any) -> Any:
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=CLASSES, name="classes")
    return mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch")


def convolve(data: Any, filters: int, kernel: int, name: str, stride: int = 1, **attributes: Any) -> Any:
    """A convolution that keeps the size of the image, or divides it by the stride."""
    window = {"kernel": (kernel,) * 2, "stride": (stride,) * 2, "pad": (kernel // 2,) * 2}
    return mx.sym.Convolution(data, num_filter=filters, **(window | attributes), name=name)


def pool(data: Any, kernel: int, stride: int, kind: str = "max", **attributes: Any) -> Any:
    return mx.sym.Pooling(data, kernel=(kernel,) * 2, stride=(stride,) * 2, pool_type=kind, **attributes)


def lenet(batch: int = 10) -> Model:
    """Two convolutions with tanh, each pooled, and two dense layers."""
    net = mx.sym.Variable("data")
    for i, filters in enumerate((6, 10)):
        net = mx.sym.Activation(convolve(net, filters, 5, f"conv{i}", pad=(0, 0)), act_type="tanh")
        net = pool(net, 2, 2)
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=20, name="dense")
    return Model(classify(mx.sym.Activation(net, act_type="tanh")), {"data": (batch, 1, 28, 28)}, CLASSES)


def alexnet(batch: int = 9) -> Model:
    """Normalised over neighbouring channels, overlapping poolings, dropout between dense layers."""
    net = mx.sym.Variable("data")
    layers = ((6, 11, 4), (10, 5, 1), (12, 3, 1), (12, 3, 1), (8, 3, 1))  # filters, kernel, stride
    for i, (filters, kernel, stride) in enumerate(layers):
        net = relu(convolve(net, filters, kernel, f"conv{i}", stride), f"relu{i}")
        if i < 2:
            net = mx.sym.LRN(net, alpha=0.0001, beta=0.75, knorm=2, nsize=5)
        if i in (0, 1, 4):
            net = pool(net, 3, 2)
    for i in range(2):
        net = relu(mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=24, name=f"dense{i}"), f"dense_relu{i}")
        net = mx.sym.Dropout(net, p=0)
    return Model(classify(net), {"data": (batch, 3, 67, 67)}, CLASSES, is_single_precision=True)


def inception(net: Any, name: str, unit: Callable[..., Any], filters: tuple[int, ...], kind: str = "avg") -> Any:
    """Four branches over the same data, side by side: 1x1, 3x3, and 5x5 (or twice 3x3), each reduced first, and a pooling."""
    one, narrow, three, narrower, five, pooled = filters
    branches = [
        unit(net, one, 1, f"{name}_1"),
        unit(unit(net, narrow, 1, f"{name}_3_reduce"), three, 3, f"{name}_3"),
        unit(unit(net, narrower, 1, f"{name}_5_reduce"), five, 5, f"{name}_5"),
        unit(pool(net, 3, 1, kind, pad=(1, 1)), pooled, 1, f"{name}_pool"),
    ]
    return mx.sym.Concat(*branches, name=f"{name}_concat")


def googlenet(batch: int = 8) -> Model:
    """Inception modules of plain convolutions."""

    def unit(data: Any, filters: int, kernel: int, name: str, stride: int = 1) -> Any:
        return relu(convolve(data, filters, kernel, name, stride), f"{name}_relu")

    net = pool(unit(mx.sym.Variable("data"), 6, 7, "stem", 2), 3, 2)
    net = pool(unit(unit(net, 6, 1, "stem_reduce"), 10, 3, "stem_3"), 3, 2)
    net = inception(net, "a", unit, (4, 5, 7, 2, 3, 3), "max")
    net = pool(inception(net, "b", unit, (6, 6, 9, 3, 4, 3), "max"), 3, 2, pooling_convention="full")
    net = inception(net, "c", unit, (7, 5, 9, 2, 3, 4), "max")
    net = mx.sym.Dropout(mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type="avg"), p=0)
    return Model(classify(net), {"data": (batch, 3, 64, 64)}, CLASSES)


def inception_bn(batch: int = 8) -> Model:
    """Inception modules of normalised convolutions, and one that halves the image: its branches have strides."""

    def unit(data: Any, filters: int, kernel: int, name: str, stride: int = 1) -> Any:
        return relu(batch_norm(convolve(data, filters, kernel, name, stride), f"{name}_norm"), f"{name}_relu")

    net = pool(unit(mx.sym.Variable("data"), 6, 7, "stem", 2), 3, 2)
    net = inception(net, "a", unit, (4, 4, 6, 3, 5, 3))
    halves = [
        unit(unit(net, 5, 1, "b_3_reduce"), 7, 3, "b_3", 2),
        unit(unit(unit(net, 4, 1, "b_5_reduce"), 5, 3, "b_5"), 6, 3, "b_5_again", 2),
        pool(net, 3, 2, pad=(1, 1)),
    ]
    net = inception(mx.sym.Concat(*halves, name="b_concat"), "c", unit, (5, 4, 6, 3, 4, 3), "max")
    net = mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type="avg")
    return Model(classify(net), {"data": (batch, 3, 48, 48)}, CLASSES)


def resnext(batch: int = 9) -> Model:
    """Residual blocks whose inner convolution runs in groups."""
    net = relu(batch_norm(convolve(mx.sym.Variable("data"), 8, 3, "stem"), "stem_norm"), "stem_relu")
    for i in range(3):
        stride = 2 if i else 1
        body = relu(batch_norm(convolve(net, 8, 1, f"in{i}"), f"in_norm{i}"), f"in_relu{i}")
        body = batch_norm(convolve(body, 8, 3, f"grouped{i}", stride, num_group=4, no_bias=True), f"grouped_norm{i}")
        body = batch_norm(convolve(relu(body, f"grouped_relu{i}"), 12, 1, f"out{i}"), f"out_norm{i}")
        net = relu(body + batch_norm(convolve(net, 12, 1, f"skip{i}", stride), f"skip_norm{i}"), f"relu{i}")
    net = mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type="avg")
    return Model(classify(net), {"data": (batch, 3, 16, 16)}, CLASSES)


def two_tasks(batch: int = 10) -> Model:
    """One body, two heads: classes by a support vector machine, and a number by regression."""
    net = relu(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=20, name="body"), "body_relu")
    classes = mx.sym.FullyConnected(net, num_hidden=CLASSES, name="classes")
    number = mx.sym.FullyConnected(net, num_hidden=1, name="number")
    losses = mx.sym.SVMOutput(classes, name="svm"), mx.sym.LinearRegressionOutput(number, name="fit")
    return Model(mx.sym.Group(losses), {"data": (batch, 13)}, CLASSES)


EXAMPLES: dict[str, Callable[[], Model]] = {
    "example_lenet": lenet,
    "example_alexnet": alexnet,
    "example_googlenet": googlenet,
    "example_inception_bn": inception_bn,
    "example_resnext": resnext,
    "example_two_tasks": two_tasks,
}
