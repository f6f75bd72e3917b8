"""Element-wise operators with broadcasting, pure broadcasts, and their gradients.

For (4, 3) + (1, 3), each row of the output reads the one row of the second tensor. So the gradient of this row is a sum
over 4 rows.
"""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.binary import FUNCTIONS, GRADIENTS
from tofu.tdl import Any, scatter, unread

# Gradients of MXNet's NumPy operators only read the shapes of these operands.
GRADIENTS = {
    "add": (lambda d, *operands: sum(map(unread, operands), d), lambda d, *operands: sum(map(unread, operands), d)),
    "sub": (lambda d, *operands: sum(map(unread, operands), d), lambda d, *operands: sum(map(unread, operands), -d)),
} | GRADIENTS


def add_up(value, rank, shape):
    """Sum `value(*i)` over the dimensions that have extent 1 in `shape`."""
    missing = rank - len(shape)
    cell = lambda i: tuple(0 if extent == 1 else i[missing + d] for d, extent in enumerate(shape))
    return scatter(lambda *i: (cell(i), value(*i)), rank=rank)


def _describe(function):
    return lambda lhs, rhs: lambda *i: function(lhs.broadcast(*i), rhs.broadcast(*i))


def _describe_gradients(by_lhs, by_rhs):
    def description(d_out, *operands, output_shapes):
        value = lambda f: lambda *i: f(d_out[i], *(operand.broadcast(*i) for operand in operands))
        for_lhs, for_rhs = output_shapes
        return add_up(value(by_lhs), d_out.ndim, for_lhs), add_up(value(by_rhs), d_out.ndim, for_rhs)

    return description


for _name, _function in FUNCTIONS.items():
    op(f"broadcast_{_name}")(_describe(_function))
for _name, _gradients in GRADIENTS.items():
    op(f"_backward_broadcast_{_name}", concrete=True)(_describe_gradients(*_gradients))


@op("broadcast_axis", bound={"size": lambda local: _extents(local, local.attributes["axis"])})
def broadcast_axis(data, *, axis=(), size=()):
    return lambda *i: data.broadcast(*i)


def _extents(local, axes):
    return tuple(local.outputs[0].shape[axis] for axis in axes)


@op("broadcast_to", bound={"shape": lambda local: local.outputs[0].shape})
def broadcast_to(data, *, shape=()):
    return lambda *i: data.broadcast(*i)


@op("broadcast_like")
def broadcast_like(data, like, *, lhs_axes=None, rhs_axes=None):
    if lhs_axes is None:
        return lambda *i: data.broadcast(*i) + unread(like[i])
    axes = {r % like.ndim: d % data.ndim for d, r in zip(lhs_axes, rhs_axes, strict=True)}
    at = lambda i: tuple(i[axes[d]] if d in axes else Any for d in range(like.ndim))
    return lambda *i: data.broadcast(*i) + unread(like[at(i)])


@op("_broadcast_backward", concrete=True)
def backward_broadcast(d_out, *, output_shapes):
    return add_up(lambda *i: d_out[i], d_out.ndim, output_shapes[0])
