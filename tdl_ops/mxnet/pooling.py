"""Pooling and its gradient.

Axes: batch `b`, channel `c`, output positions `y0, y1, ..`. Channels are the second or the last dimension. In windows
that extend beyond the data, max pooling reads -infinity, and other pooling reads 0. On CPUs, oneDNN's max pooling saves
the maximum's position for the gradient, in a form that cannot be split. So workers run MXNet's own gradient, which
finds the maximum again.
"""

import math

import numpy as np

from tdl_ops.mxnet import op
from tdl_ops.mxnet.window import SPACE, check_windows, local_pad, numbered, read_layout, read_window
from tofu.tdl import (
    Max,
    Opaque,
    Sum,
    cbrt,
    constant,
    maximum,
    minimum,
    output,
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
    # The sums in MXNet's norms have no absolute values.
    return {1: lambda x: x, 2: sqrt, 3: cbrt}[p](total)


def _contribution(pool_type, p, d_out, x, out, count):
    if pool_type == "max":
        return where(x == out, d_out, 0.0)
    if pool_type == "lp":
        return d_out * (x / out) ** (p - 1)
    return d_out / count if pool_type == "avg" else d_out


def _count(at, y, space, convention, is_padding_counted):
    # Under the convention "full", windows may extend beyond the padding.
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
    place = read_layout(layout)
    space = place.extents(data.shape)
    if global_pool:
        at = lambda y, d: d
        count, extents = (lambda y: math.prod(space)), {}
    else:
        at, extents = read_window(kernel, stride, pad), {"d": kernel}
        check_windows(at, pooling_convention)
        count = lambda y: _count(at, y, space, pooling_convention, count_include_pad)
    names = place.names("y", len(space))

    def pool(cell):
        b, c, y = place.take_apart(cell)
        power = p_value if pool_type == "lp" else 1
        reduced = (Max if pool_type == "max" else Sum)(
            lambda *d: data[place.cell(b, c, at(y, d))] ** power, ndim=len(space), extents=extents
        )
        return {"avg": lambda: reduced / count(y), "lp": lambda: _root(reduced, power)}.get(
            pool_type, lambda: reduced
        )()

    # oneDNN's positions, which workers do not read
    return (output(names, lambda *cell: pool(cell)), unwritten(names, is_scratch=True))[: len(output_shapes)]


def _first_largest(data, out, d_out):
    """Return the gradient of max(data): `d_out` at the first of the largest elements, otherwise 0."""
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
    place = read_layout(layout)
    data, out = others if len(others) == 2 else others[1:3]
    unused = () if len(others) == 2 else (others[0], others[3])
    n = data.ndim - 2

    def value(cell, y, count):
        own = _contribution(pool_type, p_value, d_out[y], data[cell], out[y], count)
        return own + sum((unread(t[y]) for t in unused), unread(data[cell]) + unread(out[y]))

    space = place.extents(data.shape)
    if not global_pool:
        at = read_window(kernel, stride, pad)
        check_windows(at, pooling_convention)
        count = lambda y: _count(at, y, space, pooling_convention, count_include_pad)

        def windows(b, c, y, d):
            cell = place.cell(b, c, at(y, d))
            return cell, value(cell, place.cell(b, c, y), count(y))

        names = f"b c {numbered('y', n)} {numbered('d', n)}"
        extents = {f"d{i}": k for i, k in enumerate(kernel)}
        return scatter(lambda b, c, *v: windows(b, c, v[:n], v[n:]), extents, names=names)
    names, only, whole = place.names("x", n), (0,) * n, (slice(None),) * n
    if pool_type != "max":
        spread = lambda cell: value(cell, place.cell(*place.take_apart(cell)[:2], only), math.prod(space))
        return output(names, lambda *cell: spread(cell))

    def choose(cell):
        b, c, x = place.take_apart(cell)
        y = place.cell(b, c, only)
        extra = sum((unread(t[y]) for t in unused), constant(0.0))
        return global_maximum_gradient(data[place.cell(b, c, whole)], out[y], d_out[y])[x] + extra

    return output(names, lambda *cell: choose(cell))
