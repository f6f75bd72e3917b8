"""Operators that replace SoftmaxOutput's gradient if it is split by classes, or divided by the number of valid labels.

`classes` is the number of all classes, and `first` is the first class of a worker's shard. `names` are the index
variables of SoftmaxOutput. Dimension `axis` is `k`, the classes. For the shapes of labels, see `label_at`.
"""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.softmax_output import line_label, residual_of
from tofu.tdl import Sum, maximum, output, trunc, where


@op("_tofu_valid_labels")
def valid_labels(label, *, names, ignore_label=-1.0):
    is_valid = lambda *j: where(trunc(label[j]) == int(ignore_label), 0.0, 1.0)
    return lambda one: Sum(is_valid, names=names)


def _local_first(local):
    return local.start("k")


@op(
    "_tofu_softmax_output_gradient",
    "_tofu_softmax_output_gradient_by_count",
    bound={"first": _local_first},
    starts=("k",),
)
def softmax_output_gradient(
    out,
    label,
    count=None,
    *,
    names,
    classes,
    axis=-1,
    grad_scale=1.0,
    ignore_label=-1.0,
    use_ignore=False,
    smooth_alpha=0.0,
    first=0,
):
    axis %= out.ndim
    residual = residual_of(out, int(ignore_label) if use_ignore else None, smooth_alpha, classes, first)
    share = grad_scale if count is None else grad_scale / maximum(1.0, count[0])
    gradient = lambda i: residual(i, i[axis], line_label(label, i, axis)) * share
    return output(names, lambda *i: gradient(i))
