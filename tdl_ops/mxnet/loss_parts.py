"""Operators that replace gradients of losses.

Workers first count the valid elements (above `valid_thresh`), by which MakeLoss divides its gradient. `scale`
multiplies the gradient of a regression that is split within a sample.
"""

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
