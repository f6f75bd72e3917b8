"""Small models whose height, width, depth or time is split. Extents are indivisible. Some shards are smaller than halos."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx

from tests.models.plain import PlainModel


def tanh(data: Any) -> Any:
    return mx.sym.Activation(data, act_type="tanh")


def fit_elements(net: Any, channels: int, space: int, shapes: dict[str, tuple[int, ...]]) -> PlainModel:
    net = mx.sym.Convolution(net, kernel=(1,) * space, num_filter=channels, name="last")
    loss = mx.sym.mean(mx.sym.square(net - mx.sym.Variable("label")), name="mean")
    return PlainModel(
        mx.sym.Group([mx.sym.MakeLoss(loss, name="loss"), mx.sym.BlockGrad(net, name="cells")]), shapes, 3
    )


def image(batch: int = 1) -> PlainModel:
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), pad=(1, 1), num_filter=3, name="odd")
    net = tanh(mx.sym.Convolution(net, kernel=(4, 2), stride=(2, 1), pad=(1, 1), num_filter=2, name="even"))
    net = mx.sym.Pooling(net, kernel=(3, 3), stride=(2, 2), pool_type="max", pooling_convention="full", name="largest")
    net = mx.sym.Convolution(net, kernel=(3, 2), dilate=(2, 3), pad=(2, 2), num_filter=3, no_bias=True, name="dilated")
    net = mx.sym.Deconvolution(tanh(net), kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=2, name="up_even")
    net = mx.sym.Pooling(
        net, kernel=(2, 3), stride=(1, 1), pad=(1, 1), pool_type="avg", count_include_pad=False, name="inside"
    )
    net = mx.sym.Deconvolution(net, kernel=(3, 3), stride=(2, 1), pad=(1, 1), adj=(1, 0), num_filter=3, name="up_odd")
    net = mx.sym.Pooling(net, kernel=(3, 2), stride=(2, 2), pool_type="avg", pooling_convention="full", name="average")
    return fit_elements(net, 4, 2, {"data": (batch, 2, 17, 19)})


def sequence(batch: int = 1) -> PlainModel:
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(5,), dilate=(3,), pad=(6,), num_filter=3, name="dilated")
    net = mx.sym.Pooling(
        tanh(net), kernel=(3,), stride=(2,), pool_type="max", pooling_convention="full", name="largest"
    )
    net = mx.sym.Convolution(net, kernel=(2,), stride=(1,), num_filter=3, name="even")
    net = mx.sym.Deconvolution(tanh(net), kernel=(3,), stride=(2,), pad=(1,), adj=(1,), num_filter=2, name="up")
    net = mx.sym.Pooling(net, kernel=(4,), stride=(1,), pad=(2,), pool_type="avg", name="average")
    return fit_elements(net, 3, 1, {"data": (batch, 2, 41)})


def volume(batch: int = 1) -> PlainModel:
    """MXNet has no deconvolution in three dimensions."""
    net = mx.sym.Convolution(
        mx.sym.Variable("data"), kernel=(2, 3, 2), stride=(1, 1, 1), pad=(1, 1, 1), num_filter=2, name="mixed"
    )
    net = mx.sym.Pooling(tanh(net), kernel=(3, 2, 2), stride=(2, 1, 1), pool_type="max", name="largest")
    net = mx.sym.Convolution(net, kernel=(3, 2, 3), dilate=(1, 2, 1), pad=(1, 1, 1), num_filter=2, name="dilated")
    net = mx.sym.Pooling(net, kernel=(2, 2, 3), stride=(1, 1, 1), pool_type="avg", name="average")
    return fit_elements(net, 3, 3, {"data": (batch, 1, 9, 8, 8)})


SPATIAL: dict[str, Callable[[], PlainModel]] = {"image": image, "sequence": sequence, "volume": volume}
