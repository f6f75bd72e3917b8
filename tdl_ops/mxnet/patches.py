"""im2col and col2im: copy each position of a sliding window to a column, and back.

Each of the two operators is the gradient of the other. They can be split by sample, by channel `c`, and by rows of
window positions, `y0`. In col2im, workers then add the elements that their windows share.
"""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.window import local_pad, numbered, read_window
from tofu.tdl import merge, output, scatter

ROWS = ("y0",)  # the outermost of the merged positions; only it can be split


def _local_size(local):
    # The rows and columns that the worker's window positions cover.
    own = local.attributes
    at = read_window(own["kernel"], own["stride"], own["pad"], own["dilate"])
    sides = enumerate(zip(own["output_size"], at.kernel, at.stride, at.dilate, strict=True))
    return tuple(
        (local.extent(f"y{n}") - 1) * stride + (kernel - 1) * dilate + 1 if local.is_split(f"y{n}") else size
        for n, (size, kernel, stride, dilate) in sides
    )


BOUND = {"pad": local_pad}
RESIZED = {**BOUND, "output_size": _local_size}


def _take(data, space, kernel, stride, dilate, pad):
    """Return a tensor (b, c x window elements, window positions)."""
    at, n = read_window(kernel, stride, pad, dilate), len(kernel)
    extents = {f"d{i}": k for i, k in enumerate(kernel)} | {f"y{i}": size for i, size in enumerate(space)}
    names = f"b (c {numbered('d', n)}) ({numbered('y', n)})"
    return output(names, lambda *v: data[(*v[:2], *at(v[2 + n :], v[2 : 2 + n]))], extents)


def _put(columns, space, kernel, stride, dilate, pad):
    at, n = read_window(kernel, stride, pad, dilate), len(kernel)
    extents = {f"d{i}": k for i, k in enumerate(kernel)} | {f"y{i}": size for i, size in enumerate(space)}
    place = lambda b, c, d, y: ((b, c, *at(y, d)), columns[b, merge(c, *d), merge(*y)])
    names = f"b c {numbered('d', n)} {numbered('y', n)}"
    return scatter(lambda b, c, *v: place(b, c, v[:n], v[n:]), extents, names=names)


def _positions(size, kernel, stride, dilate, pad):
    at = read_window(kernel, stride, pad, dilate)
    reach = [size + 2 * p - d * (k - 1) - 1 for size, k, d, p in zip(size, kernel, at.dilate, at.pad, strict=True)]
    return [extent // s + 1 for extent, s in zip(reach, at.stride, strict=True)]


@op("im2col", concrete=True, bound=BOUND, pads=ROWS)
def im2col(data, *, kernel=(), stride=(), dilate=(), pad=()):
    space = _positions(data.shape[2:], kernel, stride, dilate, pad)
    return _take(data, space, kernel, stride, dilate, pad)


@op("_backward_im2col", concrete=True, bound=BOUND, pads=ROWS)
def backward_im2col(d_out, *, output_shapes, kernel=(), stride=(), dilate=(), pad=()):
    space = _positions(output_shapes[0][2:], kernel, stride, dilate, pad)
    return _put(d_out, space, kernel, stride, dilate, pad)


@op("col2im", concrete=True, bound=RESIZED, pads=ROWS)
def col2im(data, *, output_size, kernel=(), stride=(), dilate=(), pad=()):
    return _put(data, _positions(output_size, kernel, stride, dilate, pad), kernel, stride, dilate, pad)


@op("_backward_col2im", concrete=True, bound=RESIZED, pads=ROWS)
def backward_col2im(d_out, *, output_size, kernel=(), stride=(), dilate=(), pad=()):
    return _take(d_out, _positions(output_size, kernel, stride, dilate, pad), kernel, stride, dilate, pad)
