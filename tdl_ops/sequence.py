"""Operators over sequences of given lengths: time, the dimension `axis`, is compared with the lengths and cannot be split."""

from __future__ import annotations

from tofu.tdl import op, output, position, unwritten, where


def _at(i, axis):
    """Time and batch of a cell; the batch is the other one of the first two dimensions."""
    return i[axis], i[1 - axis]


@op("SequenceMask")
def sequence_mask(data, sequence_length=None, *, use_sequence_length=False, value=0.0, axis=0):
    if sequence_length is None:
        return lambda *i: data[i]
    inside = lambda t, b: position(t) < sequence_length[b]
    return lambda *i: where(inside(*_at(i, axis)), data[i], value)


@op("_backward_SequenceMask")
def backward_sequence_mask(d_out, sequence_length=None, *, use_sequence_length=False, axis=0):
    if sequence_length is None:
        return lambda *i: d_out[i]
    inside = lambda t, b: position(t) < sequence_length[b]
    batch = f"i{1 - axis}"
    return output("*i", lambda *i: where(inside(*_at(i, axis)), d_out[i], 0.0)), unwritten(batch)
