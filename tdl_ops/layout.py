"""Operators that move data without computing: transpose, concatenate, split, slice, and their gradients."""

from __future__ import annotations

from itertools import accumulate

from tofu.tdl import constant, op, output, position, unread, where


@op("transpose")
def transpose(data, *, axes=()):
    order = axes or tuple(reversed(range(data.ndim)))
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
    names = _swap([f"i{d}" for d in range(d_out.ndim)], dim1, dim2)  # an axis is called as in the forward operator
    return output(" ".join(names), lambda *i: d_out[_swap(i, dim1, dim2)])


@op("Concat", "_rnn_param_concat")
def concat(*parts, dim=1):
    begins = list(accumulate((part.shape[dim] for part in parts), initial=0))

    def value(i):
        total = constant(0.0)
        for part, begin, end in zip(parts, begins, begins[1:], strict=False):
            inside = (position(i[dim]) >= begin) & (position(i[dim]) < end)
            total = total + where(inside, part[(*i[:dim], i[dim] - begin, *i[dim + 1 :])], 0.0)
        return total

    return lambda *i: value(i)


@op("_backward_Concat", concrete=True)
def backward_concat(d_out, *parts, output_shapes, dim=1):
    begins = accumulate((shape[dim] for shape in output_shapes), initial=0)

    def part_of(n, begin):
        names = " ".join(f"p{n}" if d == dim else f"i{d}" for d in range(d_out.ndim))
        unused = lambda i: unread(parts[n][i]) if parts else 0.0
        return output(names, lambda *i: d_out[(*i[:dim], i[dim] + begin, *i[dim + 1 :])] + unused(i))

    return tuple(part_of(n, begin) for n, (_, begin) in enumerate(zip(output_shapes, begins, strict=False)))


@op("SliceChannel")
def slice_channel(data, *, num_outputs, axis=1, squeeze_axis=False):
    axis %= data.ndim
    size = data.shape[axis] // num_outputs
    names = [f"i{d}" for d in range(data.ndim)]

    def part(n):
        if squeeze_axis:
            return output(" ".join(names[:axis] + names[axis + 1 :]), lambda *i: data[(*i[:axis], n, *i[axis:])])
        return lambda *i: data[(*i[:axis], i[axis] + n * size, *i[axis + 1 :])]

    return tuple(part(n) for n in range(num_outputs))


@op("_backward_SliceChannel")
def backward_slice_channel(*d_outs, num_outputs, axis=1, squeeze_axis=False):
    rank = d_outs[0].ndim + squeeze_axis
    axis %= rank
    size = 1 if squeeze_axis else d_outs[0].shape[axis]

    def value(i):
        total = constant(0.0)
        for n, d_out in enumerate(d_outs):
            inside = (position(i[axis]) >= n * size) & (position(i[axis]) < (n + 1) * size)
            cell = (*i[:axis], *(() if squeeze_axis else (i[axis] - n * size,)), *i[axis + 1 :])
            total = total + where(inside, d_out[cell], 0.0)
        return total

    return lambda *i: value(i)


@op("slice_axis")
def slice_axis(data, *, axis, begin, end=None):
    axis %= data.ndim
    start = begin if begin >= 0 else data.shape[axis] + begin
    return lambda *i: data[(*i[:axis], i[axis] + start, *i[axis + 1 :])]


@op("_backward_slice_axis", concrete=True)
def backward_slice_axis(d_out, *, output_shapes, axis, begin, end=None):
    axis %= d_out.ndim
    start = begin if begin >= 0 else output_shapes[0][axis] + begin
    end = start + d_out.shape[axis]

    def value(i):
        inside = (position(i[axis]) >= start) & (position(i[axis]) < end)
        return where(inside, d_out[(*i[:axis], i[axis] - start, *i[axis + 1 :])], 0.0)

    return lambda *i: value(i)


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
    names = " ".join(f"i{d}" for d in range(d_out.ndim) if d != axis)
    part = lambda n: output(names, lambda *i: d_out[(*i[:axis], n, *i[axis:])])
    return tuple(part(n) for n in range(num_args))
