"""Planes resampled to another size, and the gradients: a matrix for the rows and one for the columns. Split by sample and channel."""

from __future__ import annotations

import numpy as np

from tdl_ops.mxnet import op
from tdl_ops.mxnet.factorization import apply
from tofu.tdl import output, unread


def _resample(matrix, shape):
    """A plane resampled to `shape`, by matrix(size before, size after) along each dimension."""
    return lambda plane: matrix(plane.shape[0], shape[0]) @ plane @ matrix(plane.shape[1], shape[1]).T


def _resample_gradient(matrix, shape):
    """The gradient of a plane of `shape`."""
    return lambda d_out: matrix(shape[0], d_out.shape[0]).T @ d_out @ matrix(shape[1], d_out.shape[1])


def _average(before, after):
    """Averages over windows that cover the line and may overlap by a cell."""
    ends = [(n * before // after, -(-(n + 1) * before // after)) for n in range(after)]
    return np.array([[float(begin <= k < end) / (end - begin) for k in range(before)] for begin, end in ends])


def _interpolate(before, after, align_corners):
    """Linear interpolation between the two cells around each place."""
    if align_corners:
        places = np.arange(after) * ((before - 1) / (after - 1) if after > 1 else 0.0)
    else:
        places = np.maximum((np.arange(after) + 0.5) * before / after - 0.5, 0)
    near = np.minimum(places.astype(int), before - 1)
    matrix = np.zeros((after, before))
    matrix[np.arange(after), near] += 1 - (places - near)
    matrix[np.arange(after), np.minimum(near + 1, before - 1)] += places - near
    return matrix


@op("_contrib_AdaptiveAvgPooling2D")
def adaptive_avg_pooling(data, *, output_shapes):
    return apply(_resample(_average, output_shapes[0][2:]), data)


@op("_backward_contrib_AdaptiveAvgPooling2D")
def backward_adaptive_avg_pooling(d_out, *, output_shapes):
    return apply(_resample_gradient(_average, output_shapes[0][2:]), d_out)


@op("_contrib_BilinearResize2D")
def bilinear_resize(data, like=None, *, output_shapes, align_corners=True):
    matrix = lambda before, after: _interpolate(before, after, align_corners)
    resized = apply(_resample(matrix, output_shapes[0][2:]), data)
    if like is None:
        return resized
    return output("*b i j", lambda *v: resized.body(*v) + unread(like[v]))


@op("_backward_contrib_BilinearResize2D")
def backward_bilinear_resize(d_out, *, output_shapes, align_corners=True):
    matrix = lambda before, after: _interpolate(before, after, align_corners)
    d_data = apply(_resample_gradient(matrix, output_shapes[0][2:]), d_out)
    return (d_data, output("*b v u", lambda *v: 0.0))[: len(output_shapes)]
