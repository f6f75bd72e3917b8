"""Pooling_v1, which MXNet keeps for old models.

Max pooling pads with zeros, too. An average is divided by the size of the whole window, even if it extends beyond the
data.
"""

from math import prod

from tdl_ops.mxnet import op
from tdl_ops.mxnet.window import SPACE, check_windows, local_pad, numbered, read_window
from tofu.tdl import Max, Sum, scatter, where

SPLIT = {"bound": {"pad": local_pad}, "pads": SPACE}


@op("Pooling_v1", **SPLIT)
def pooling(data, *, kernel=(), pool_type="max", global_pool=False, stride=(), pad=(), pooling_convention="valid"):
    n, reducer = data.ndim - 2, Max if pool_type == "max" else Sum
    if global_pool:
        at, extents, count = (lambda y, d: d), {}, prod(data.shape[2:])
    else:
        at, extents, count = read_window(kernel, stride, pad), {"d": kernel}, prod(kernel)
        check_windows(at, pooling_convention)
    total = lambda b, c, y: reducer(lambda *d: data[(b, c, *at(y, d))], ndim=n, extents=extents)
    return lambda b, c, *y: total(b, c, y) / count if pool_type == "avg" else total(b, c, y)


@op("_backward_Pooling_v1", **SPLIT)
def backward_pooling(
    d_out, data, out, *, kernel=(), pool_type="max", global_pool=False, stride=(), pad=(), pooling_convention="valid"
):
    n = data.ndim - 2

    def share(cell, y, count):
        if pool_type == "max":
            return where(data[cell] == out[y], d_out[y], 0.0)
        return d_out[y] / (count if pool_type == "avg" else 1) + 0 * (data[cell] + out[y])

    if global_pool:
        return lambda b, c, *x: share((b, c, *x), (b, c, *(0,) * n), prod(data.shape[2:]))
    at, extents = read_window(kernel, stride, pad), {f"d{i}": k for i, k in enumerate(kernel)}
    check_windows(at, pooling_convention)
    place = lambda b, c, y, d: ((b, c, *at(y, d)), share((b, c, *at(y, d)), (b, c, *y), prod(kernel)))
    names = f"b c {numbered('y', n)} {numbered('d', n)}"
    return scatter(lambda b, c, *v: place(b, c, v[:n], v[n:]), extents, names=names)
