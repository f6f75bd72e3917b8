"""Operators that read or write the diagonal or a triangle of matrices.

They can be split along the diagonal, but not within a triangle.
"""

import numpy as np

from tdl_ops.mxnet import op
from tdl_ops.mxnet.factorization import apply
from tofu.tdl import Any, Sum, log, output, position, scatter, where


def on_diagonal(i, k, axes):
    """Return the index of a diagonal element: (b, n, n + 1) for i = (b, n), k = 1 and axes = (1, 2)."""
    place, others = dict(zip(axes, (i[-1] + max(0, -k), i[-1] + max(0, k)), strict=True)), iter(i[:-1])
    return tuple(place[d] if d in place else next(others) for d in range(len(i) + 1))


def local_offset(name):
    # If the diagonal is split, a shard is the diagonal of a smaller matrix.
    return lambda local: 0 if local.is_split("k") else local.attributes[name]


def _others(count):
    return [f"i{d}" for d in range(count)]


@op("diag", bound={"k": local_offset("k")}, pads=("k",))
def diag(data, *, k=0, axis1=0, axis2=1):
    if data.ndim == 1:
        return lambda y, x: where(position(y) + k == position(x), data[Any(position(y) + min(0, k))], 0.0)
    axes = axis1 % data.ndim, axis2 % data.ndim
    return output(" ".join([*_others(data.ndim - 2), "k"]), lambda *i: data[on_diagonal(i, k, axes)])


@op("_backward_diag", concrete=True)
def backward_diag(d_out, *, output_shapes, k=0, axis1=0, axis2=1):
    rank = len(output_shapes[0])
    if rank == 1:
        return lambda i: d_out[on_diagonal((i,), k, (0, 1))]
    names = " ".join([*_others(rank - 2), "k"])
    return scatter(lambda *i: (on_diagonal(i, k, (axis1 % rank, axis2 % rank)), d_out[i]), names=names)


@op("_linalg_extractdiag", bound={"offset": local_offset("offset")}, pads=("k",))
def extractdiag(a, *, offset=0):
    return output("*i k", lambda *v: a[on_diagonal(v, offset, (a.ndim - 2, a.ndim - 1))])


def _put_diagonal(a, offset):
    names = " ".join([*_others(a.ndim - 1), "k"])
    return scatter(lambda *v: (on_diagonal(v, offset, (a.ndim - 1, a.ndim)), a[v]), names=names)


@op("_linalg_makediag")
def makediag(a, *, offset=0):
    return _put_diagonal(a, offset)


@op("_backward_linalg_extractdiag")
def backward_extractdiag(d_out, *, offset=0):
    return _put_diagonal(d_out, offset)


@op("_backward_linalg_makediag", bound={"offset": local_offset("offset")}, pads=("k",))
def backward_makediag(d_out, *, offset=0):
    return extractdiag.function(d_out, offset=offset)


@op("_linalg_sumlogdiag")
def sumlogdiag(a):
    return lambda *b: Sum(lambda k: log(a[(*b[: a.ndim - 2], k, k)]))


@op("_backward_linalg_sumlogdiag")
def backward_sumlogdiag(d_out, a):
    return lambda *v: where(position(v[-2]) == position(v[-1]), d_out[v[:-2] or (0,)] / a[v], 0.0)


def _triangle(n, offset, lower):
    # MXNet ignores `lower` if the offset is not 0. Its sign then chooses the triangle.
    if lower if offset == 0 else offset < 0:
        return np.tril_indices(n, offset)
    return np.tril_indices(n, -offset)[::-1]


def _take_triangle(a, offset, lower):
    return apply(lambda matrix: matrix[_triangle(len(matrix), offset, lower)], a, names="t")


def _put_triangle(a, offset, lower):
    def put(cells):
        n = int(np.sqrt(2 * len(cells))) + abs(offset)
        matrix = np.zeros((n, n))
        matrix[_triangle(n, offset, lower)] = cells
        return matrix

    return apply(put, a, own=1)


@op("_linalg_extracttrian", "_backward_linalg_maketrian")
def extracttrian(a, *, offset=0, lower=True):
    return _take_triangle(a, offset, lower)


@op("_linalg_maketrian", "_backward_linalg_extracttrian")
def maketrian(a, *, offset=0, lower=True):
    return _put_triangle(a, offset, lower)
