"""Operators of MXNet's NumPy interface that move or slice data, and differences of neighbours."""

from math import comb, prod

import numpy as np

from tdl_ops.mxnet import op
from tdl_ops.mxnet.contrib import backward_split, split
from tdl_ops.mxnet.diagonal import backward_diag, diag, local_offset, on_diagonal
from tdl_ops.mxnet.enlarging import backward_pad, pad
from tofu.errors import UnsupportedError
from tofu.tdl import Any, Sum, mod, position, scatter, trunc, where


@op("_np_moveaxis")
def moveaxis(a, *, source, destination):
    order = np.moveaxis(np.empty(range(a.ndim)), source, destination).shape  # dimensions of the data
    return lambda *i: a[tuple(i[order.index(d)] for d in range(a.ndim))]


@op("_np_roll")
def roll(data, *, shift, axis=None):
    axes, shifts = ((given,) if isinstance(given, int) else given for given in (axis, shift))
    if axes is None:
        return _roll_flat(data, sum(shifts))
    distance = dict(zip((d % data.ndim for d in axes), shifts * len(axes) if len(shifts) == 1 else shifts, strict=True))
    turned = lambda v, d: Any(mod(position(v) - distance[d], position(data.shape[d]))) if d in distance else v
    return lambda *i: data[tuple(turned(v, d) for d, v in enumerate(i))]


def _roll_flat(data, distance):
    strides = [prod(data.shape[d + 1 :]) for d in range(data.ndim)]

    def turned(i):
        place = mod(
            sum(position(v) * stride for v, stride in zip(i, strides, strict=True)) - distance, prod(data.shape)
        )
        return tuple(
            Any(mod(trunc(place / stride), extent)) for stride, extent in zip(strides, data.shape, strict=True)
        )

    return lambda *i: data[turned(i)]


@op("_npi_rot90")
def rot90(data, *, k=1, axes=()):
    a, b = (d % data.ndim for d in axes)
    from_end = lambda v, d: data.shape[d] - 1 - v

    def turned(i):
        place = list(i)
        if k % 2:
            place[a], place[b] = i[b], i[a]
        for d in {0: (), 1: (b,), 2: (a, b), 3: (a,)}[k % 4]:
            place[d] = from_end(place[d], d)
        return tuple(place)

    return lambda *i: data[turned(i)]


def _flat(pad_width):
    return tuple(width for both in pad_width for width in both)


@op("_npi_pad", fill={"data": lambda attributes: attributes["constant_value"]})
def pad_all(data, *, pad_width, mode="constant", constant_value=0.0):
    _check_mode(mode)
    return pad.function(data, mode=mode, pad_width=_flat(pad_width), constant_value=constant_value)


@op("_backward_npi_pad", concrete=True)
def backward_pad_all(d_out, *, output_shapes, pad_width, mode="constant"):
    _check_mode(mode)
    return backward_pad.function(d_out, output_shapes=output_shapes, mode=mode, pad_width=_flat(pad_width))


def _check_mode(mode):
    if mode != "constant":
        raise UnsupportedError(f"np.pad with mode={mode!r} is not described; mode='constant' is")


op("_npi_dsplit", concrete=True)(split.function)


@op("_npi_hsplit", concrete=True)
def hsplit(data, *, indices=(), sections=0):
    return split.function(data, indices=indices, axis=min(1, data.ndim - 1), sections=sections)


@op("_npi_hsplit_backward", concrete=True)
def backward_hsplit(*parts, output_shapes, indices=(), sections=0):
    axis = min(1, len(output_shapes[0]) - 1)
    return backward_split.function(*parts, output_shapes=output_shapes, indices=indices, axis=axis, sections=sections)


def _difference(n, k):
    """Return a binomial coefficient with alternating sign: 1, -2, 1 for `n` = 2 and `k` = 0, 1, 2."""
    return float((-1) ** (n - k) * comb(n, k))


@op("_npi_diff")
def diff(a, *, n=1, axis=-1):
    axis %= a.ndim
    neighbour = lambda i, k: a[(*i[:axis], i[axis] + k, *i[axis + 1 :])]
    return lambda *i: sum(_difference(n, k) * neighbour(i, k) for k in range(n + 1))


@op("_backward_npi_diff")
def backward_diff(d_out, *, n=1, axis=-1):
    axis %= d_out.ndim
    factor = lambda k: sum(where(position(k) == m, _difference(n, m), 0.0) for m in range(n + 1))
    names = " ".join([*(f"i{d}" for d in range(d_out.ndim)), "k"])
    spread = lambda i, k: ((*i[:axis], i[axis] + k, *i[axis + 1 :]), factor(k) * d_out[i])
    return scatter(lambda *v: spread(v[:-1], v[-1]), {"k": n + 1}, names=names)


def _local_diagonal(local):
    rank, k = len(local.inputs[0].shape), local.attributes.get("k", 0)
    row, column = f"i{rank - 2}", f"i{rank - 1}"
    return k + local.start(row) - local.start(column) if local.has(row) else k


TRIANGLE = {"bound": {"k": _local_diagonal}, "starts": tuple(f"i{d}" for d in range(8))}


@op("_npi_tril", **TRIANGLE)
def tril(data, *, k=0):
    if data.ndim == 1:
        return lambda y, x: where(position(x) - position(y) <= k, data[x], 0.0)
    return lambda *i: where(position(i[-1]) - position(i[-2]) <= k, data[i], 0.0)


@op("_backward_tril", **TRIANGLE)
def backward_tril(d_out, *, k=0, output_shapes):
    if len(output_shapes[0]) == 1:
        return lambda x: Sum(lambda y: where(position(x) - position(y) <= k, d_out[y, x], 0.0))
    return tril.function(d_out, k=k)


@op("_np_diagonal", bound={"offset": local_offset("offset")}, pads=("k",))
def diagonal(data, *, offset=0, axis1=0, axis2=1):
    return diag.function(data, k=offset, axis1=axis1, axis2=axis2)


@op("_backward_np_diagonal", concrete=True)
def backward_diagonal(d_out, *, output_shapes, offset=0, axis1=0, axis2=1):
    return backward_diag.function(d_out, output_shapes=output_shapes, k=offset, axis1=axis1, axis2=axis2)


@op("_np_trace", concrete=True)
def trace(data, *, offset=0, axis1=0, axis2=1):
    axes = axis1 % data.ndim, axis2 % data.ndim
    rows, columns = (data.shape[d] for d in axes)
    length = min(rows + min(0, offset), columns - max(0, offset))
    return lambda *i: Sum(lambda k: data[on_diagonal((*i, k), offset, axes)], extents={"k": length})


@op("_backward_np_trace", concrete=True)
def backward_trace(d_out, *, output_shapes, offset=0, axis1=0, axis2=1):
    y, x = (axis % len(output_shapes[0]) for axis in (axis1, axis2))
    others = lambda i: tuple(v for d, v in enumerate(i) if d not in (y, x)) or (0,) * d_out.ndim
    return lambda *i: where(position(i[y]) + offset == position(i[x]), d_out[others(i)], 0.0)
