"""Operators that crop or reorder data, and khatri_rao."""

from math import prod

from tdl_ops.mxnet import op
from tofu.tdl import Any, merge, output, position, scatter, unread, unwritten, where


@op("depth_to_space")
def depth_to_space(data, *, block_size):
    cell = lambda b, c, y, i, x, j: data[b, merge(i, j, c), y, x]
    return output("b c (y i) (x j)", cell, {"i": block_size, "j": block_size})


@op("space_to_depth")
def space_to_depth(data, *, block_size):
    cell = lambda b, i, j, c, y, x: data[b, c, y * block_size + i, x * block_size + j]
    return output("b (i j c) y x", cell, {"i": block_size, "j": block_size})


def _cropped(axes, ndim):
    return [d in {axis % ndim for axis in axes} or not axes for d in range(ndim)]


@op("slice_like")
def slice_like(data, like, *, axes=()):
    cropped = _cropped(axes, data.ndim)
    shape = lambda i: tuple(i[d] if d < data.ndim and cropped[d] else Any for d in range(like.ndim))
    return lambda *i: data[i] + unread(like[shape(i)])


@op("_backward_slice_like", pads=tuple(f"i{d}" for d in range(8)))
def backward_slice_like(d_out):
    return lambda *i: d_out[i], output("*n", lambda *n: 0.0)


def _offsets(data, offset, h_w, center_crop):
    return tuple((whole - part) // 2 for whole, part in zip(data, h_w, strict=True)) if center_crop else offset


def _local_offset(local):
    # In a split dimension, the worker receives only the cropped data.
    a = local.attributes
    whole = [local.inputs[0].shape[d] for d in (2, 3)]
    offset = _offsets(whole, a["offset"], [local.extent("y"), local.extent("x")], a["center_crop"])
    return tuple(0 if local.is_split(name) else o for name, o in zip("yx", offset, strict=True))


CROP = {
    "bound": {
        "offset": _local_offset,
        "h_w": lambda local: (local.extent("y"), local.extent("x")),
        "center_crop": lambda local: False,
    },
    "pads": ("y", "x"),
    "concrete": True,
}


@op("Crop", **CROP)
def crop(data, like=None, *, output_shapes, offset=(0, 0), h_w=(0, 0), center_crop=False):
    y0, x0 = _offsets(data.shape[2:], offset, output_shapes[0][2:], center_crop)
    shape = lambda y, x: 0.0 if like is None else unread(like[Any, Any, y, x])
    return lambda b, c, y, x: data[b, c, y + y0, x + x0] + shape(y, x)


@op("_backward_Crop", concrete=True)
def backward_crop(d_out, *, output_shapes, offset=(0, 0), h_w=(0, 0), center_crop=False):
    y0, x0 = _offsets(output_shapes[0][2:], offset, d_out.shape[2:], center_crop)
    d_data = scatter(lambda b, c, y, x: ((b, c, y + y0, x + x0), d_out[b, c, y, x]))
    return (d_data, unwritten("m n v u"))[: len(output_shapes)]


@op("khatri_rao")
def khatri_rao(*matrices):
    rows = " ".join(f"r{n}" for n in range(len(matrices)))
    extents = {f"r{n}": matrix.shape[0] for n, matrix in enumerate(matrices)}
    cell = lambda r, k: prod(matrix[row, k] for matrix, row in zip(matrices, r, strict=True))
    return output(f"({rows}) k", lambda *v: cell(v[:-1], v[-1]), extents)


@op("shape_array")
def shape_array(data):
    size = lambda d, n: where(position(d) == n, position(data.shape[n]), 0.0)
    return lambda d: sum((size(d, n) for n in range(data.ndim)), unread(data[(Any,) * data.ndim]))


@op("size_array")
def size_array(data):
    return lambda one: position(prod(data.shape)) + unread(data[(Any,) * data.ndim])


@op("amp_multicast", "_backward_amp_multicast", concrete=True)
def amp_multicast(*tensors):
    """Convert tensors to a common type."""
    found = dict[int, list[int]]()

    def name(d, extent):
        extents = found.setdefault(d, [])
        if extent not in extents:
            extents.append(extent)
        return f"i{d}" if extent == extents[0] else f"i{d}_{extents.index(extent)}"

    names = [" ".join(name(d, extent) for d, extent in enumerate(tensor.shape)) for tensor in tensors]
    return tuple(output(own, lambda *i, t=t: t[i]) for own, t in zip(names, tensors, strict=True))
