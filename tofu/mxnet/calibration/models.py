"""Define the small models to measure. They have layers of every common kind in several sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any

import mxnet as mx

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class CalibrationCase:
    """A model to measure, with its input shapes, the number of workers, and the planning algorithm's name."""

    symbol: Any
    shapes: Shapes
    workers: int = 1
    algorithm: str = "recursive"


PERCEPTRONS = (
    *((2, 448, 3), (2, 1792, 2), (8, 256, 3), (48, 640, 3)),
    *((96, 1536, 3), (24, 2560, 2), (768, 512, 3), (48, 3072, 2)),
)
CONVOLUTIONS = (4, 16, 40), (12, 32, 80), (8, 96, 48), (32, 48, 24), (2, 160, 72), (4, 48, 144)
RECURRENCES = (6, 96, 3), (40, 288, 3), (160, 512, 3), (24, 1024, 2)
ATTENTIONS = (2, 24, 96), (4, 96, 160), (2, 160, 320), (8, 128, 256)


def list_cases() -> Iterator[CalibrationCase]:
    """Yield all models to measure. Each model occurs once for one device, and once for several devices."""
    for build, sizes in _list_families():
        for symbol, shapes in (build(*model_sizes) for model_sizes in sizes):
            yield CalibrationCase(symbol, shapes)
            yield CalibrationCase(symbol, shapes, 2)
            yield CalibrationCase(symbol, shapes, 2, "data-parallel")
            if shapes["data"][0] % 4 == 0:
                yield CalibrationCase(symbol, shapes, 4)


def list_steps() -> Iterator[CalibrationCase]:
    """Yield models for 1, 2 and 4 devices. Their training steps are measured."""
    for build, sizes in _list_families():
        for symbol, shapes in (build(*model_sizes) for model_sizes in sizes[-2:]):
            yield from (CalibrationCase(symbol, shapes, workers) for workers in (1, 2, 4))


def _list_families() -> tuple[tuple[Callable[..., tuple[Any, Shapes]], tuple[tuple[int, ...], ...]], ...]:
    return (
        (_build_perceptron, PERCEPTRONS),
        (_build_convolutions, CONVOLUTIONS),
        (_build_recurrence, RECURRENCES),
        (_build_attention, ATTENTIONS),
    )


def _build_perceptron(batch: int, width: int, layers: int) -> tuple[Any, Shapes]:
    net = mx.sym.Variable("data")
    for layer, activation in zip(range(layers), ("relu", "tanh", "sigmoid"), strict=False):
        net = mx.sym.Activation(mx.sym.FullyConnected(net, num_hidden=width, name=f"fc{layer}"), act_type=activation)
    return _add_classifier(net), {"data": (batch, width // 2)}


def _build_convolutions(batch: int, channels: int, image: int) -> tuple[Any, Shapes]:
    def convolve(net: Any, name: str, filters: int, kernel: int, stride: int = 1) -> Any:
        net = mx.sym.Convolution(
            net,
            num_filter=filters,
            kernel=(kernel, kernel),
            stride=(stride, stride),
            pad=(kernel // 2, kernel // 2),
            no_bias=True,
            name=name,
        )
        return mx.sym.BatchNorm(net, fix_gamma=False, name=f"{name}_norm")

    net = mx.sym.Activation(convolve(mx.sym.Variable("data"), "stem", channels, 7, 2), act_type="relu")
    net = mx.sym.Pooling(net, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")
    for block, stride in enumerate((1, 2)):
        wide = 4 * channels
        residual = mx.sym.Activation(convolve(net, f"b{block}_reduce", channels, 1), act_type="relu")
        residual = mx.sym.Activation(convolve(residual, f"b{block}_spread", channels, 3, stride), act_type="relu")
        residual = convolve(residual, f"b{block}_widen", wide, 1)
        net = mx.sym.Activation(residual + convolve(net, f"b{block}_short", wide, 1, stride), act_type="relu")
    net = mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type="avg")
    return _add_classifier(mx.sym.Flatten(net)), {"data": (batch, 3, image, image)}


def _build_recurrence(batch: int, cells: int, steps: int) -> tuple[Any, Shapes]:
    cell = mx.rnn.LSTMCell(cells, prefix="lstm_")
    inputs = [mx.sym.Variable("data" if step == 0 else f"data{step}") for step in range(steps)]
    begin = [mx.sym.Variable("begin0"), mx.sym.Variable("begin1")]
    outputs, _ = cell.unroll(steps, inputs, begin_state=begin, merge_outputs=False)
    shapes: Shapes = {variable.name: (batch, cells) for variable in (*inputs, *begin)}
    weight, bias = mx.sym.Variable("out_weight"), mx.sym.Variable("out_bias")
    decoded = [mx.sym.FullyConnected(output, weight, bias, num_hidden=64) for output in outputs]
    return mx.sym.Group([mx.sym.SoftmaxOutput(out, name=f"softmax{n}") for n, out in enumerate(decoded)]), shapes


def _build_attention(batch: int, length: int, hidden: int) -> tuple[Any, Shapes]:
    heads, vocabulary = 4, 512
    net = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=vocabulary, output_dim=hidden, name="embedding")
    net = mx.sym.LayerNorm(mx.sym.Reshape(net, shape=(-3, 0)), name="norm")

    def project_to_heads(name: str) -> Any:
        projected = mx.sym.FullyConnected(net, num_hidden=hidden, name=name)
        with_heads = mx.sym.Reshape(projected, shape=(batch, length, heads, hidden // heads))
        return mx.sym.Reshape(mx.sym.transpose(with_heads, axes=(0, 2, 1, 3)), shape=(-3, 0, 0))

    query, key, value = map(project_to_heads, ("query", "key", "value"))
    scores = mx.sym.softmax(mx.sym.batch_dot(query, key, transpose_b=True) * (1 / sqrt(hidden / heads)))
    mixed = mx.sym.Reshape(mx.sym.batch_dot(scores, value), shape=(batch, heads, length, hidden // heads))
    mixed = mx.sym.Reshape(mx.sym.transpose(mixed, axes=(0, 2, 1, 3)), shape=(batch * length, hidden))
    net = net + mx.sym.FullyConnected(mixed, num_hidden=hidden, name="output")
    inner = mx.sym.LeakyReLU(mx.sym.FullyConnected(net, num_hidden=4 * hidden, name="inner"), act_type="gelu")
    net = net + mx.sym.FullyConnected(inner, num_hidden=hidden, name="outer")
    net = mx.sym.FullyConnected(net, num_hidden=vocabulary, name="vocabulary")
    label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    return mx.sym.SoftmaxOutput(net, label, name="softmax"), {"data": (batch, length), "softmax_label": (batch, length)}


def _add_classifier(net: Any) -> Any:
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=32, name="classes"), name="softmax")
