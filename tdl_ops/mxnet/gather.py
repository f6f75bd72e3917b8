"""Operators that read or write at positions that are data. Dimensions that they index are not split."""

from math import prod

import numpy as np

from tdl_ops.mxnet import op
from tdl_ops.mxnet.embedding import find_row
from tofu.tdl import Any, Opaque, position, scatter, trunc, where


@op("batch_take")
def batch_take(a, indices):
    return lambda b: a[b, find_row(indices[b], a.shape[1])]


def _coordinates(indices, count, place):
    return tuple(Any(trunc(indices[(d, *place)])) for d in range(count))


@op("gather_nd")
def gather_nd(data, indices, *, output_shapes):
    n = indices.ndim - 1
    count = data.ndim - len(output_shapes[0]) + n
    return lambda *i: data[(*_coordinates(indices, count, i[:n]), *i[n:])]


@op("_backward_gather_nd", bound={"shape": lambda local: local.outputs[0].shape})
def backward_gather_nd(d_out, indices, *, output_shapes, shape=()):
    n = indices.ndim - 1
    count = len(output_shapes[0]) - d_out.ndim + n
    return scatter(lambda *i: ((*_coordinates(indices, count, i[:n]), *i[n:]), d_out[i]), rank=d_out.ndim)


@op("scatter_nd", bound={"shape": lambda local: local.outputs[0].shape}, concrete=True)
def scatter_nd(data, indices, *, output_shapes, shape=()):
    n = indices.ndim - 1
    count = len(output_shapes[0]) - data.ndim + n

    def place(values, columns):  # of several values, the last one remains
        result = np.zeros(output_shapes[0][:count])
        result[tuple(columns.astype(int))] = values
        return result

    placed, everything = Opaque(place, "scatter_nd"), (slice(None),)
    return lambda *i: placed(data[(*everything * n, *i[count:])], indices[everything * indices.ndim])[i[:count]]


def _strides(shape):
    return [prod(shape[d + 1 :]) for d in range(len(shape))]


@op("_ravel_multi_index")
def ravel_multi_index(data, *, shape):
    return lambda n: sum(data[d, n] * stride for d, stride in enumerate(_strides(shape)))


@op("_unravel_index")
def unravel_index(data, *, shape):
    coordinates = lambda n: [
        trunc(data[n] / stride) % size for stride, size in zip(_strides(shape), shape, strict=True)
    ]
    return lambda d, n: sum(where(position(d) == e, value, 0.0) for e, value in enumerate(coordinates(n)))
