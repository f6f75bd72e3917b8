"""The parts that take the place of MakeLoss's gradient where it is divided by the number of valid cells, those above `valid_thresh`, and
of that of a regression output where it is split within a sample.

The stock operator's index variables are called `b s0 s1 ...`.
"""

from __future__ import annotations

from tdl_ops.mxnet import op
from tofu.tdl import Sum, maximum, unread, where


@op("_tofu_valid_cells")
def valid_cells(data, *, valid_thresh=0.0):
    names = " ".join(["b", *(f"s{d}" for d in range(data.ndim - 1))])
    return lambda one: Sum(lambda *j: where(data[j] > valid_thresh, 1.0, 0.0), names=names)


@op("_tofu_make_loss_gradient")
def make_loss_gradient(data, count, *, grad_scale=1.0):
    return lambda b, *s: grad_scale / maximum(1.0, count[0]) + unread(data[(b, *s)])


@op("_tofu_scale")
def scale(data, *, grad_scale=1.0):
    return lambda b, *s: data[(b, *s)] * grad_scale
