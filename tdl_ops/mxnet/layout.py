"""Operators that only move data: transpose, concatenate, split, slice, and their gradients."""

from itertools import accumulate

from tdl_ops.mxnet import op
from tdl_ops.patterns.layout import cut, join, pick, shift
from tofu.tdl import constant, output, position, where


@op("transpose")
def transpose(data, *, axes=()):
    order = [axis % data.ndim for axis in axes] or [*reversed(range(data.ndim))]
    return lambda *i: data[tuple(i[order.index(d)] for d in range(data.ndim))]


def _swap(i, dim1, dim2):
    order = list(i)
    order[dim1], order[dim2] = i[dim2], i[dim1]
    return tuple(order)


@op("SwapAxis")
def swap_axis(data, *, dim1=0, dim2=0):
    return lambda *i: data[_swap(i, dim1, dim2)]


@op("_backward_SwapAxis")
def backward_swap_axis(d_out, *, dim1=0, dim2=0):
    names = _swap([f"i{d}" for d in range(d_out.ndim)], dim1, dim2)  # axes are named as in the forward operator
    return output(" ".join(names), lambda *i: d_out[_swap(i, dim1, dim2)])


@op("Concat", "_rnn_param_concat")
def concat(*parts, dim=1):
    dim %= parts[0].ndim
    *begins, _ = accumulate((part.shape[dim] for part in parts), initial=0)
    return join(parts, begins, dim)


@op("_tofu_join")
def join_shifted(*parts, distances):
    back = lambda i, distance: tuple(v - n for v, n in zip(i, distance, strict=True))
    return lambda *i: sum(part[back(i, distance)] for part, distance in zip(parts, distances, strict=True))


@op("_backward_Concat", concrete=True)
def backward_concat(d_out, *parts, output_shapes, dim=1):
    dim %= d_out.ndim
    *begins, _ = accumulate((shape[dim] for shape in output_shapes), initial=0)
    return cut(d_out, begins, dim, parts)


@op("SliceChannel")
def slice_channel(data, *, num_outputs, axis=1, squeeze_axis=False):
    axis %= data.ndim
    if squeeze_axis:
        return pick(data, range(num_outputs), axis)
    return cut(data, [n * (data.shape[axis] // num_outputs) for n in range(num_outputs)], axis)


@op("_backward_SliceChannel")
def backward_slice_channel(*d_outs, num_outputs, axis=1, squeeze_axis=False):
    axis %= d_outs[0].ndim + squeeze_axis
    if squeeze_axis:
        return stack.function(*d_outs, axis=axis)
    return join(d_outs, [n * d_outs[0].shape[axis] for n in range(num_outputs)], axis)


def _local_bound(name, whole):

    def value(local):
        axis = local.attributes["axis"] % len(local.inputs[0].shape)
        return whole(local, axis) if local.is_split(f"i{axis}") else local.attributes[name]

    return value


SLICE = {
    "begin": _local_bound("begin", lambda local, axis: 0),
    "end": _local_bound("end", lambda local, axis: local.inputs[0].shape[axis]),
}


@op("slice_axis", bound=SLICE)
def slice_axis(data, *, axis, begin, end=None):
    axis %= data.ndim
    start = begin if begin >= 0 else data.shape[axis] + begin
    return lambda *i: data[shift(i, axis, start)]


@op("_backward_slice_axis", bound=SLICE, concrete=True)
def backward_slice_axis(d_out, *, output_shapes, axis, begin, end=None):
    axis %= d_out.ndim
    start = begin if begin >= 0 else output_shapes[0][axis] + begin
    return join([d_out], [start], axis)


@op("stack")
def stack(*parts, axis=0):
    axis %= parts[0].ndim + 1

    def value(i):
        total = constant(0.0)
        for n, part in enumerate(parts):
            total = total + where(position(i[axis]) == n, part[(*i[:axis], *i[axis + 1 :])], 0.0)
        return total

    return lambda *i: value(i)


@op("_backward_stack", concrete=True)
def backward_stack(d_out, *, num_args, axis=0):
    axis %= d_out.ndim
    return pick(d_out, range(num_args), axis)
