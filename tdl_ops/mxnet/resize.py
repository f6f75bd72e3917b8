"""Operators that resize images. A matrix combines the rows, and another matrix combines the columns.

They can be split by sample and channel. BilinearResize2D can also be split by rows or columns if their number stays the
same.
"""

import numpy as np

from tdl_ops.mxnet import op
from tdl_ops.mxnet.factorization import apply
from tofu.tdl import Opaque, output, unread


def _resample(matrix, shape):
    return lambda plane: matrix(plane.shape[0], shape[0]) @ plane @ matrix(plane.shape[1], shape[1]).T


def _resample_gradient(matrix, shape):
    return lambda d_out: matrix(shape[0], d_out.shape[0]).T @ d_out @ matrix(shape[1], d_out.shape[1])


def _average(before, after):
    """Return the matrix that averages windows. For 5 rows and 2 windows, these are rows 0 to 2 and rows 2 to 4."""
    ends = [(n * before // after, -(-(n + 1) * before // after)) for n in range(after)]
    return np.array([[float(begin <= k < end) / (end - begin) for k in range(before)] for begin, end in ends])


def _interpolate(before, after, align_corners):
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


def _is_stated(attributes):
    return attributes["mode"] == "size" and attributes["scale_height"] is None


BOUND = {
    name: lambda local, name=name, v=v: local.extent(v) if _is_stated(local.attributes) else local.attributes[name]
    for name, v in (("height", "i"), ("width", "j"))
}


def _resize(tensor, rows, columns, is_stated):
    # A dimension whose matrix is the identity can be split, because the kernel only copies it.
    keeps = [is_stated and np.array_equal(matrix, np.eye(len(matrix))) for matrix in (rows, columns)]
    if all(keeps):
        return output("*b i j", lambda *v: tensor[v])
    if not any(keeps):
        return apply(lambda plane: rows @ plane @ columns.T, tensor)
    resampled = Opaque(lambda line: (columns if keeps[0] else rows) @ line)
    if keeps[0]:
        return output("*b i j", lambda *v: resampled(tensor[(*v[:-1], slice(None))])[v[-1]])
    return output("*b i j", lambda *v: resampled(tensor[(*v[:-2], slice(None), v[-1])])[v[-2]])


@op("_contrib_BilinearResize2D", bound=BOUND, concrete=True)
def bilinear_resize(
    data, like=None, *, output_shapes, align_corners=True, mode="size", scale_height=None, height=1, width=1
):
    is_stated = _is_stated({"mode": mode, "scale_height": scale_height})
    sizes = zip(data.shape[2:], output_shapes[0][2:], strict=True)
    resized = _resize(data, *(_interpolate(*size, align_corners) for size in sizes), is_stated)
    if like is None:
        return resized
    return output("*b i j", lambda *v: resized.body(*v) + unread(like[v]))


@op("_backward_contrib_BilinearResize2D", bound=BOUND, concrete=True)
def backward_bilinear_resize(
    d_out, *, output_shapes, align_corners=True, mode="size", scale_height=None, height=1, width=1
):
    is_stated = _is_stated({"mode": mode, "scale_height": scale_height})
    sizes = zip(output_shapes[0][2:], d_out.shape[2:], strict=True)
    d_data = _resize(d_out, *(_interpolate(*size, align_corners).T for size in sizes), is_stated)
    return (d_data, output("*b v u", lambda *v: 0.0))[: len(output_shapes)]
