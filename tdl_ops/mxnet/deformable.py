"""Deformable convolution: each kernel position reads the data at an offset, which is also an input.

Axes: batch `b`, output channel `co`, input channel `ci`, output row `y` and column `x`. All input channels share their
offsets. Any output may read any position of the data. MXNet's operator cannot be split by rows and columns, because it
computes its output size from the size of the data. Tofu's operator can.
"""

from tdl_ops.mxnet import op
from tofu.errors import UnsupportedError
from tofu.tdl import Any, Sum, floor, maximum, minimum, output, position, scatter, where

SPACE = ("y", "x")
CORNERS = {"p": 2, "q": 2}


def _local_pad(local):
    window = zip(SPACE, local.attributes["stride"] or (1, 1), local.attributes["pad"] or (0, 0), strict=True)
    return tuple(pad - stride * local.start(axis) for axis, stride, pad in window)


def _choose(index, first, second):
    return where(position(index) == 0, first, second)


class Sampling:
    """Read `data` between its elements, by bilinear interpolation. Outside of `data`, numbers are 0."""

    def __init__(self, data, offset, kernel, stride, pad, dilate):
        self.data, self.offset, self.kernel = data, offset, kernel
        self.stride, self.pad, self.dilate = stride or (1, 1), pad or (0, 0), dilate or (1, 1)

    def channel(self, v, u, d):
        return 2 * self.kernel[1] * v + 2 * u + d

    def corner(self, b, v, u, y, x, p, q):
        # Returns the index of one of the four elements around a position, its weights, and 1 inside of the data or 0
        # outside. `p` and `q` choose the element.
        coordinates, shares, is_inside = [], [], 1.0
        for d, (at, of_kernel, far) in enumerate(((y, v, p), (x, u, q))):
            shift = self.offset[b, self.channel(v, u, d), y, x] - self.pad[d]
            place = position(at) * self.stride[d] + position(of_kernel) * self.dilate[d] + shift
            extent = position(self.data.shape[2 + d])
            within = maximum(0.0, minimum(place, extent - 1))
            coordinates.append(Any(minimum(floor(within) + position(far), extent - 1)))
            shares.append(_choose(far, 1 - within + floor(within), within - floor(within)))
            is_inside = is_inside * where(place >= 0, 1.0, 0.0) * where(place < extent, 1.0, 0.0)
        return coordinates, shares, is_inside

    def term(self, b, ci, v, u, y, x, p, q):
        cell, shares, is_inside = self.corner(b, v, u, y, x, p, q)
        return self.data[(b, ci, *cell)] * shares[0] * shares[1] * is_inside

    def slope(self, b, ci, v, u, d, y, x, p, q):
        """Return the derivative of `term` by row (d = 0) or column (d = 1) of the position."""
        cell, shares, is_inside = self.corner(b, v, u, y, x, p, q)
        by = _choose(d, shares[1] * (2 * position(p) - 1), shares[0] * (2 * position(q) - 1))
        return self.data[(b, ci, *cell)] * by * is_inside


def _check(num_group, num_deformable_group):
    if num_group > 1 or num_deformable_group > 1:
        raise UnsupportedError(
            "deformable convolution in groups (num_group, num_deformable_group) is not described; in one it is"
        )


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
    sampling = Sampling(data, offset, kernel, stride, pad, dilate)

    def value(b, co, y, x):
        term = lambda ci, v, u, p, q: sampling.term(b, ci, v, u, y, x, p, q) * weight[co, ci, v, u]
        total = Sum(lambda ci, v, u, p, q: term(ci, v, u, p, q), extents=CORNERS)
        return total if bias is None else total + bias[co]

    return lambda b, co, y, x: value(b, co, y, x)


def backward_deformable_convolution(
    d_out,
    data,
    offset,
    weight,
    *,
    kernel,
    num_filter,
    stride=(),
    pad=(),
    dilate=(),
    num_group=1,
    num_deformable_group=1,
    no_bias=False,
):
    _check(num_group, num_deformable_group)
    sampling = Sampling(data, offset, kernel, stride, pad, dilate)

    def d_data(b, ci, co, v, u, y, x, p, q):
        cell, shares, is_inside = sampling.corner(b, v, u, y, x, p, q)
        return (b, ci, *cell), d_out[b, co, y, x] * weight[co, ci, v, u] * shares[0] * shares[1] * is_inside

    def d_offset(b, v, u, d, y, x):
        term = lambda co, ci, p, q: (
            d_out[b, co, y, x] * weight[co, ci, v, u] * sampling.slope(b, ci, v, u, d, y, x, p, q)
        )
        return Sum(lambda co, ci, p, q: term(co, ci, p, q), extents=CORNERS)

    def d_weight(co, ci, v, u):
        term = lambda b, y, x, p, q: d_out[b, co, y, x] * sampling.term(b, ci, v, u, y, x, p, q)
        return Sum(lambda b, y, x, p, q: term(b, y, x, p, q), extents=CORNERS)

    window = {"v": kernel[0], "u": kernel[1]}
    return (
        scatter(lambda b, ci, co, v, u, y, x, p, q: d_data(b, ci, co, v, u, y, x, p, q), extents=CORNERS),
        output("b (v u d) y x", lambda b, v, u, d, y, x: d_offset(b, v, u, d, y, x), window | {"d": 2}),
        output("co ci v u", lambda co, ci, v, u: d_weight(co, ci, v, u)),
        output("co", lambda co: Sum(lambda b, y, x: d_out[b, co, y, x])),
    )[: 3 if no_bias else 4]


WHOLE = {"bound": {"num_filter": "co"}}
PART = {"bound": {"num_filter": "co", "pad": _local_pad}, "starts": SPACE}
op("_contrib_DeformableConvolution", **WHOLE)(deformable_convolution)
op("_tofu_deformable_convolution", **PART)(deformable_convolution)
op("_backward__contrib_DeformableConvolution", **WHOLE)(backward_deformable_convolution)
op("_tofu_deformable_convolution_backward", **PART)(backward_deformable_convolution)
