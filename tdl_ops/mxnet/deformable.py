"""Deformable convolution: every cell of the kernel reads beside its place, as far as offsets say.

Axes: batch `b`, output channel `co`, and input channel `ci` where all of them share their offsets. Space is whole.
"""

from __future__ import annotations

import numpy as np

from tdl_ops.mxnet import op
from tofu.errors import UnsupportedError
from tofu.tdl import Opaque, Sum, output, unread


def _interpolate(plane, y, x):
    """Bilinear between the cells around each place, up to the last ones; 0 outside."""
    inside = (y >= 0) & (y < plane.shape[0]) & (x >= 0) & (x < plane.shape[1])
    total = np.zeros(y.shape)
    low = [
        np.floor(np.clip(place, 0, extent - 1)).astype(int) for place, extent in zip((y, x), plane.shape, strict=True)
    ]
    high = [np.minimum(cell + 1, extent - 1) for cell, extent in zip(low, plane.shape, strict=True)]
    share = [np.clip(place, 0, extent - 1) - cell for place, extent, cell in zip((y, x), plane.shape, low, strict=True)]
    for row, by_row in ((low[0], 1 - share[0]), (high[0], share[0])):
        for column, by_column in ((low[1], 1 - share[1]), (high[1], share[1])):
            total += by_row * by_column * plane[row, column]
    return np.where(inside, total, 0.0)


def _sample(plane, offsets, kernel, stride, pad, dilate):
    """What each cell of the kernel reads at each position of the output: (*kernel, y, x)."""
    offsets = offsets.reshape(*kernel, 2, *offsets.shape[1:])
    cells = np.indices((*kernel, *offsets.shape[3:]))
    place = lambda d: cells[2 + d] * stride[d] - pad[d] + cells[d] * dilate[d] + offsets[:, :, d]
    return _interpolate(plane, place(0), place(1))


def _check(num_group, num_deformable_group):
    if num_group > 1 or num_deformable_group > 1:
        raise UnsupportedError(
            "deformable convolution in groups (num_group, num_deformable_group) is not described; in one it is"
        )


@op("_contrib_DeformableConvolution", bound={"num_filter": "co"})
def deformable_convolution(
    data,
    offset,
    weight,
    bias=None,
    *,
    kernel,
    num_filter,
    stride=(),
    pad=(),
    dilate=(),
    num_group=1,
    num_deformable_group=1,
):
    _check(num_group, num_deformable_group)
    window = kernel, stride or (1, 1), pad or (0, 0), dilate or (1, 1)
    sample = Opaque(lambda plane, offsets: _sample(plane, offsets, *window), "sample")
    read = lambda b, ci, *place: sample(data[b, ci, :, :], offset[b, :, :, :])[place]

    def value(b, co, y, x):
        total = Sum(lambda ci, v, u: read(b, ci, v, u, y, x) * weight[co, ci, v, u])
        return total if bias is None else total + bias[co]

    return lambda b, co, y, x: value(b, co, y, x)


@op("_backward__contrib_DeformableConvolution", bound={"num_filter": "co"})
def backward_deformable_convolution(
    d_out, data, offset, weight, *, num_filter, num_group=1, num_deformable_group=1, no_bias=False
):
    _check(num_group, num_deformable_group)
    by_data, by_offset, by_weight = (Opaque(name=f"by_{name}") for name in ("data", "offset", "weight"))
    plane = lambda tensor, b, c: tensor[b, c, :, :]
    offsets = lambda b: offset[b, :, :, :]

    def d_data(b, ci, h, w):
        total = Sum(lambda co: by_data(plane(d_out, b, co), plane(weight, co, ci), offsets(b))[h, w])
        return total + unread(data[b, ci, h, w])

    def d_offset(b, o, y, x):
        factors = lambda co, ci: (plane(d_out, b, co), plane(data, b, ci), plane(weight, co, ci), offsets(b))
        return Sum(lambda co, ci: by_offset(*factors(co, ci))[o, y, x])

    return (
        output("b ci h w", d_data),
        output("b o y x", d_offset),
        output(
            "co ci v u",
            lambda co, ci, v, u: Sum(lambda b: by_weight(plane(d_out, b, co), plane(data, b, ci), offsets(b))[v, u]),
        ),
        output("co", lambda co: Sum(lambda b, y, x: d_out[b, co, y, x])),
    )[: 3 if no_bias else 4]
