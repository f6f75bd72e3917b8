"""Operators with sliding windows that MXNet's do not compute: morphological dilation, convolutions of padded images, pooling at random."""

from __future__ import annotations

import numpy as np

from benchmarks.evaluation.tensorflow import describe
from tofu.tdl import Max, Opaque, Sum

IMAGES = (2, 5, 6, 3)
WHOLE = slice(None)


def find_cells(strides, before, rates=(1, 1)):
    """A function from an output's position and the place in a window to the position of the data's cell."""
    return lambda y, v: tuple(
        place * stride + offset * rate - pad
        for place, offset, stride, rate, pad in zip(y, v, strides, rates, before, strict=True)
    )


@describe("Dilation2D", inputs=[IMAGES, (2, 2, 3)], outputs=[(2, 4, 5, 3)])
def dilation(data, kernel, *, strides=(1, 1), rates=(1, 1), before=(0, 0)):
    at = find_cells(strides, before, rates)
    return lambda b, y, x, c: Max(lambda v, u: data[(b, *at((y, x), (v, u)), c)] + kernel[v, u, c])


def _convolve_planes(change, data, weight, strides):
    """A convolution of planes that an opaque function has changed, each alone."""
    at = find_cells(strides, (0, 0))
    plane = lambda b, c: change(data[b, :, :, c])
    value = lambda b, y, x, o, v, u, c: plane(b, c)[at((y, x), (v, u))] * weight[v, u, c, o]
    return lambda b, y, x, o: Sum(lambda v, u, c: value(b, y, x, o, v, u, c))


PADS = ((1, 1), (2, 0))


@describe("FusedPadConv2D", inputs=[IMAGES, (2, 2, 3, 4)], outputs=[(2, 6, 7, 4)], attributes={"paddings": PADS})
def convolve_padded(data, weight, *, paddings, mode="reflect", strides=(1, 1)):
    pad = Opaque(lambda plane: np.pad(plane, paddings, mode=mode), "pad")
    return _convolve_planes(pad, data, weight, strides)


@describe("FusedResizeAndPadConv2D", inputs=[IMAGES, (2, 2, 3, 4)], outputs=[(2, 6, 7, 4)])
def convolve_resized(data, weight, *, strides=(1, 1)):
    return _convolve_planes(Opaque(name="resize_and_pad"), data, weight, strides)


@describe("FractionalAvgPool", "FractionalMaxPool", inputs=[IMAGES], outputs=[(2, 3, 4, 3), (4,), (5,)])
def fractional_pooling(data):
    """The borders of the windows are drawn at random, once for all planes."""
    pool = Opaque(name="fractional_pooling")
    whole = lambda: pool(data[:, :, :, :])
    return lambda *i: whole()[(0, *i)], lambda row: whole()[1, row], lambda column: whole()[2, column]


@describe("MaxPoolWithArgmax", inputs=[IMAGES], outputs=[(2, 3, 3, 3), (2, 3, 3, 3)])
def max_pooling_with_places(data):
    """A place counts all cells of a sample."""
    pool = Opaque(name="max_pooling_with_places")
    result = lambda n: lambda b, y, x, c: pool(data[b, :, :, :])[n, y, x, c]
    return result(0), result(1)
