"""Pooling and its gradient.

Axes: batch `b`, channel `c`, output positions `y0, y1, ..`. Cells outside the data are minus infinity to a maximum, zero to a sum.
On CPUs max pooling may have a second output, MKLDNN's workspace, and its gradient is given that and a gradient of it. Both are unread:
the workspace is packed in bytes and cannot be cut, so the workers run MXNet's plain gradient, which finds the maximum from data and output.
"""

from __future__ import annotations

import math

import numpy as np

from tdl_ops.mxnet import op
from tdl_ops.mxnet.window import SPACE, check_layout, check_windows, local_pad, numbered, read_window
from tofu.tdl import (
    Max,
    Opaque,
    Sum,
    cbrt,
    constant,
    maximum,
    minimum,
    position,
    scatter,
    sqrt,
    unread,
    unwritten,
    where,
)


def _fill(attributes):
    return -math.inf if attributes["pool_type"] == "max" else 0.0


def _root(total, p):
    """The p-th root. MXNet's norms are of the numbers themselves, not of their magnitudes."""
    return {1: lambda x: x, 2: sqrt, 3: cbrt}[p](total)


def _contribution(pool_type, p, d_out, x, out, count):
    """What one cell x of a window receives of the gradient of the window's output."""
    if pool_type == "max":
        return where(x == out, d_out, 0.0)
    if pool_type == "lp":
        return d_out * (x / out) ** (p - 1)
    return d_out / count if pool_type == "avg" else d_out


def _count(at, y, space, convention, is_padding_counted):
    """What an average divides by: the cells of the window within the data, or within data and padding.

    Windows stand out beyond the padding only under the convention "full".
    """
    if convention == "valid" and (is_padding_counted or not any(at.pad)):
        return math.prod(at.kernel)
    count = 1
    for i, first in enumerate(at(y, (0,) * len(y))):
        margin = at.pad[i] if is_padding_counted else 0
        end = minimum(position(first + at.kernel[i]), space[i] + margin)
        count = count * (end - maximum(position(first), -margin))
    return count


@op("Pooling", bound={"pad": local_pad}, pads=SPACE, fill={"data": _fill})
def pooling(
    data,
    *,
    output_shapes,
    kernel=(),
    pool_type="max",
    global_pool=False,
    pooling_convention="valid",
    stride=(),
    pad=(),
    p_value=2,
    count_include_pad=True,
    layout=None,
):
    check_layout(layout)
    space = data.shape[2:]
    if global_pool:
        at = lambda y, d: d
        count, extents = (lambda y: math.prod(space)), {}
    else:
        at, extents = read_window(kernel, stride, pad), {"d": kernel}
        check_windows(at, pooling_convention)
        count = lambda y: _count(at, y, space, pooling_convention, count_include_pad)
    reduce = lambda r, f, b, c, y: r(lambda *d: f(data[(b, c, *at(y, d))]), ndim=len(space), extents=extents)
    places = unwritten(
        "b c *y", is_scratch=True
    )  # oneDNN's, a byte each; workers run the gradient that looks for them again
    return {
        "max": (lambda b, c, *y: reduce(Max, lambda x: x, b, c, y), places)[: len(output_shapes)],
        "sum": lambda b, c, *y: reduce(Sum, lambda x: x, b, c, y),
        "avg": lambda b, c, *y: reduce(Sum, lambda x: x, b, c, y) / count(y),
        "lp": lambda b, c, *y: _root(reduce(Sum, lambda x: x**p_value, b, c, y), p_value),
    }[pool_type]


def _first_largest(data, out, d_out):
    """The gradient of the maximum of a whole array: that of the output, in the first of the largest cells."""
    gradient = np.zeros_like(data)
    gradient.reshape(-1)[np.argmax(data)] = d_out
    return gradient


global_maximum_gradient = Opaque(_first_largest, "global_maximum_gradient")


@op("_backward_Pooling", bound={"pad": local_pad}, pads=SPACE, fill={"data": _fill})
def backward_pooling(
    d_out,
    *others,
    kernel=(),
    pool_type="max",
    global_pool=False,
    pooling_convention="valid",
    stride=(),
    pad=(),
    p_value=2,
    count_include_pad=True,
    layout=None,
):
    check_layout(layout)
    data, out = others if len(others) == 2 else others[1:3]
    unused = () if len(others) == 2 else (others[0], others[3])
    n = data.ndim - 2

    def value(cell, y, count):
        own = _contribution(pool_type, p_value, d_out[y], data[cell], out[y], count)
        return own + sum((unread(t[y]) for t in unused), unread(data[cell]) + unread(out[y]))

    if not global_pool:
        at = read_window(kernel, stride, pad)
        check_windows(at, pooling_convention)
        count = lambda y: _count(at, y, data.shape[2:], pooling_convention, count_include_pad)
        windows = lambda b, c, y, d: ((b, c, *at(y, d)), value((b, c, *at(y, d)), (b, c, *y), count(y)))
        names = f"b c {numbered('y', n)} {numbered('d', n)}"
        extents = {f"d{i}": k for i, k in enumerate(kernel)}
        return scatter(lambda b, c, *v: windows(b, c, v[:n], v[n:]), extents, names=names)
    only = (0,) * n
    if pool_type != "max":
        return lambda b, c, *x: value((b, c, *x), (b, c, *only), math.prod(data.shape[2:]))
    outs = lambda b, c: (t[(b, c, *only)] for t in (out, d_out))
    extra = lambda b, c: sum((unread(t[(b, c, *only)]) for t in unused), constant(0.0))
    whole = (slice(None),) * n
    return lambda b, c, *x: global_maximum_gradient(data[(b, c, *whole)], *outs(b, c))[x] + extra(b, c)
