"""Dropout. It is random, so the verification compares its output with its mask.

The mask is the second output: 0, or 1 / (1 - p) for kept elements. At p = 0 it is not written. With axes=(1,), all
elements along dimension 1 share a mask element, so this dimension cannot be split.
"""

from tdl_ops.mxnet import op
from tofu.tdl import Random, output, unread, unwritten


def _mask_cell(i, axes):
    return tuple(0 if d in axes else v for d, v in enumerate(i))


@op("Dropout")
def dropout(data, *, p=0.5, axes=()):
    cells = " ".join(f"one{d}" if d in axes else f"i{d}" for d in range(data.ndim))
    if p == 0:
        return lambda *i: data[i], unwritten(cells)
    mask = Random()
    return lambda *i: data[i] * mask(), output(cells, lambda *i: mask())


@op("_backward_Dropout")
def backward_dropout(d_out, mask, *, p=0.5, axes=()):
    if p == 0:
        return lambda *i: d_out[i] + unread(mask[_mask_cell(i, axes)])
    return lambda *i: d_out[i] * mask[_mask_cell(i, axes)]
