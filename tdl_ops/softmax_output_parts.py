"""The parts that take the place of SoftmaxOutput's gradient where it is divided by the number of valid labels.

That number over all workers, and the gradient from it. `axis` is that of the classes: 1 where positions come after it, else the last.
`merged`: the labels of all positions of an example lie in one dimension.
"""

from __future__ import annotations

from tdl_ops.softmax_output import BATCH, POSITIONS, label_at, residual_of
from tofu.tdl import Sum, maximum, op, output, trunc, where


@op("_tofu_valid_labels")
def valid_labels(label, *, axis=-1, ignore_label=-1.0, merged=False):
    names = ("b", "m") if merged else ("b", *POSITIONS) if axis == 1 else BATCH
    is_valid = lambda *j: where(trunc(label[j]) == int(ignore_label), 0.0, 1.0)
    return lambda one: Sum(is_valid, names=" ".join(names[: label.ndim]))


@op("_tofu_softmax_output_gradient")
def softmax_output_gradient(
    out,
    label,
    count,
    *,
    axis=-1,
    grad_scale=1.0,
    ignore_label=-1.0,
    use_ignore=False,
    smooth_alpha=0.0,
    merged=False,
):
    residual = residual_of(out, int(ignore_label) if use_ignore else None, smooth_alpha)
    share = grad_scale / maximum(1.0, count[0])
    if axis != 1:
        return output("*b k", lambda k, *b: residual((*b, k), k, label[b]) * share), output("*b", lambda *b: 0.0)
    positions = " ".join(POSITIONS[: out.ndim - 2])
    gradient = lambda b, k, *s: residual((b, k, *s), k, label_at(label, b, s)) * share
    return gradient, output(f"b ({positions})" if merged else f"b {positions}", lambda b, *s: 0.0)
