"""Operators over sequences of given lengths.

A kernel compares the position in time (dimension `axis`) with the lengths, so time is not split. Lengths are rounded
down.
"""

from tdl_ops.mxnet import op
from tofu.tdl import Any, output, position, scatter, trunc, unwritten, where


def _at(i, axis):
    return i[axis], i[1 - axis]


def _last(data, axis, time, i):
    return data[(time, *i) if axis == 0 else (i[0], time, *i[1:])]


def _pick_last(data, axis):
    # Tofu runs the slice without a kernel.
    time = data.shape[axis]
    names = (*("tb", "bt")[axis], *(f"i{d}" for d in range(data.ndim - 2)))
    last = lambda i: where(position(i[axis]) == time - 1, data[i], 0.0)
    return scatter(lambda *i: ((*i[:axis], *i[axis + 1 :]), last(i)), {"t": time}, names=" ".join(names))


@op("SequenceLast", concrete=True)
def sequence_last(data, sequence_length=None, *, use_sequence_length=False, axis=0):
    if sequence_length is None:
        return _pick_last(data, axis)
    return lambda b, *i: _last(data, axis, Any(trunc(sequence_length[b]) - 1), (b, *i))


@op("_backward_SequenceLast", concrete=True)
def backward_sequence_last(d_out, sequence_length=None, *, output_shapes, use_sequence_length=False, axis=0):
    length = lambda b: output_shapes[0][axis] if sequence_length is None else trunc(sequence_length[b])
    value = lambda t, b, i: where(position(t) == length(b) - 1, d_out[(b, *i)], 0.0)
    names = "t b *i" if axis == 0 else "b t *i"
    d_data = output(names, lambda t, b, *i: value(t, b, i))
    return d_data if sequence_length is None else (d_data, unwritten("b"))


@op("SequenceMask")
def sequence_mask(data, sequence_length=None, *, use_sequence_length=False, value=0.0, axis=0):
    if sequence_length is None:
        return lambda *i: data[i]
    inside = lambda t, b: position(t) < trunc(sequence_length[b])
    return lambda *i: where(inside(*_at(i, axis)), data[i], value)


@op("_backward_SequenceMask")
def backward_sequence_mask(d_out, sequence_length=None, *, use_sequence_length=False, axis=0):
    if sequence_length is None:
        return lambda *i: d_out[i]
    inside = lambda t, b: position(t) < trunc(sequence_length[b])
    batch = f"i{1 - axis}"
    return output("*i", lambda *i: where(inside(*_at(i, axis)), d_out[i], 0.0)), unwritten(batch)


def _reverse(data, sequence_length):
    if sequence_length is None:
        return lambda t, *i: data[(data.shape[0] - 1 - t, *i)]
    mirrored = lambda t, b: where(position(t) < sequence_length[b], sequence_length[b] - 1 - position(t), position(t))
    return lambda t, b, *i: data[(Any(mirrored(t, b)), b, *i)]


@op("SequenceReverse")
def sequence_reverse(data, sequence_length=None, *, use_sequence_length=False):
    return _reverse(data, sequence_length)


@op("_backward_SequenceReverse")
def backward_sequence_reverse(d_out, sequence_length=None, *, use_sequence_length=False):
    if sequence_length is None:
        return _reverse(d_out, None)
    return _reverse(d_out, sequence_length), unwritten("b")
