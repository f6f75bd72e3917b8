"""Operators that change the shape, and their gradients."""

from tdl_ops.mxnet import op
from tdl_ops.patterns.reshape import reshape_to
from tofu.tdl import Any, output, unread


@op("Reshape", concrete=True, bound={"shape": lambda local: local.outputs[0].shape, "reverse": lambda local: False})
def reshape(data, *, output_shapes, shape=(), reverse=False):
    return reshape_to(data, output_shapes[0])


@op("Flatten", "expand_dims", "_backward_copy", "_backward_reshape", "_backward_squeeze", concrete=True)
def reshape_to_output(data, *, output_shapes):
    return reshape_to(data, output_shapes[0])


@op("reshape_like", concrete=True)
def reshape_like(data, like, *, output_shapes, lhs_begin=None, rhs_begin=None, rhs_end=None):
    """Replace some dimensions by dimensions of `like`: (30, 7) and (15, 2, 4) may give (15, 2, 7)."""
    own = slice(rhs_begin, rhs_end).indices(like.ndim)
    offset = (lhs_begin or 0) % data.ndim - own[0]
    read = lambda cell: unread(like[tuple(cell[d + offset] if d in range(*own) else Any for d in range(like.ndim))])
    return reshape_to(data, output_shapes[0], read)


def _local_squeezed(local):
    # A worker's shard may have other dimensions of extent 1.
    return tuple(d for d in range(len(local.inputs[0].shape)) if not local.has(f"i{d}"))


def _squeeze(data, axis, otherwise):
    # If no dimension remains, the output's dimension is `otherwise`.
    listed = (axis,) if isinstance(axis, int) else axis or [d for d in range(data.ndim) if data.is_one(d)]
    lost = {d % data.ndim for d in listed}
    kept = [d for d in range(data.ndim) if d not in lost]
    names = " ".join(f"i{d}" for d in kept) or otherwise
    at = lambda i: dict(zip(kept, i, strict=False))
    return output(names, lambda *i: data[tuple(at(i).get(d, 0) for d in range(data.ndim))])


@op("squeeze", bound={"axis": _local_squeezed})
def squeeze(data, *, axis=None):
    return _squeeze(data, axis, "one")


@op("_np_squeeze", bound={"axis": _local_squeezed})
def numpy_squeeze(data, *, axis=None):
    return _squeeze(data, axis, "")
