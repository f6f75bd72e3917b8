"""SoftmaxOutput: softmax, whose backward operator computes the gradient of the cross entropy.

The classes `k` are the second dimension if multi_output is True, otherwise the last. The kernel divides the gradient by
a number that `normalization` chooses: 1, the batch size, or the number of labels that are not ignored. With
multi_output, "null" divides by the number of positions in a sample. Workers have smaller batches. They get grad_scale /
(whole batch size), and "null" instead of "batch". If positions are split, or if valid labels are counted, other
operators replace the gradient (`softmax_output_parts.py`).
"""

from math import prod

from tdl_ops.mxnet import op
from tdl_ops.mxnet.loss import divide_by_rows
from tofu.errors import UnsupportedError
from tofu.tdl import Sum, exp, maximum, merge, output, position, trunc, unread, unwritten, where

BATCH = tuple(f"b{d}" for d in range(8))
POSITIONS = tuple(f"s{d}" for d in range(8))


@op("SoftmaxOutput")
def softmax_output(data, label, *, multi_output=False, preserve_shape=False):
    if is_distribution(label, data):
        labels = lambda *i: unread(label[i])
    elif multi_output:
        labels = lambda b, k, *s: unread(label_at(label, b, s))
    else:
        labels = lambda *i: unread(label[i[:-1]])
    if multi_output:
        total = lambda b, s: Sum(lambda j: exp(data[(b, j, *s)]))
        return lambda b, k, *s: exp(data[(b, k, *s)]) / total(b, s) + labels(b, k, *s)
    if preserve_shape or data.ndim == 2:
        total = lambda b: Sum(lambda j: exp(data[(*b, j)]))
        return output("*b k", lambda k, *b: exp(data[(*b, k)]) / total(b) + labels(*b, k))
    total = lambda b: Sum(lambda *j: exp(data[(b, *j)]), ndim=data.ndim - 1)
    return lambda b, *k: exp(data[(b, *k)]) / total(b) + labels(b, *k)


def is_distribution(label, data):
    """Return True if `label` has a probability for each class, not just a class number."""
    return label.ndim == data.ndim and all(label.is_one(d) == data.is_one(d) for d in range(data.ndim))


def label_at(label, b, s):
    """Return the label of sample `b` at position `s`. Labels have dimensions (b, s), (b, 1, s), or (b, s merged)."""
    if label.ndim == 2 + len(s):
        return label[(b, 0, *s)]
    return label[(b, *s)] if label.ndim == 1 + len(s) else label[b, merge(*s)]


def label_dimensions(label, b, s):
    """Return the names of a label's dimensions: "b s0 s1", "b only s0 s1" or "b (s0 s1)"."""
    only = ["only"] if label.ndim == 2 + len(s) else []
    return " ".join([b, *only, *s]) if only or label.ndim == 1 + len(s) else f"{b} ({' '.join(s)})"


def line_label(label, i, axis):
    others = (*i[:axis], *i[axis + 1 :])
    return label_at(label, others[0], others[1:])


def residual_of(out, ignored, smooth, classes=None, first=0):
    """Return a function that returns softmax - 1 for the label's class, and softmax for other classes.

    For a label that is `ignored`, it returns 0. If classes are split, the shard begins at class `first` of `classes`.
    """

    def residual(i, k, label):
        elsewhere = smooth / ((classes or position(k.extent)) - 1) if smooth else 0.0
        value = out[i] - where(position(k) + first == trunc(label), 1 - smooth, elsewhere)
        return value if ignored is None else where(trunc(label) == ignored, 0.0, value)

    return residual


def _divides_by_rows(local):
    # Each row has one label.
    attributes = local.attributes
    is_class_label = local.inputs[1].shape != local.inputs[0].shape
    return attributes["normalization"] == "batch" and is_class_label and not attributes["multi_output"]


BOUND = divide_by_rows(_divides_by_rows, lambda local: BATCH[: len(local.inputs[1].shape)])


@op("_backward_SoftmaxOutput", bound=BOUND, corrects=BATCH)
def backward_softmax_output(
    out,
    label,
    *,
    grad_scale=1.0,
    ignore_label=-1.0,
    multi_output=False,
    use_ignore=False,
    preserve_shape=False,
    normalization="null",
    out_grad=False,
    smooth_alpha=0.0,
):
    scale = lambda i: grad_scale * out[i] if out_grad else grad_scale  # MXNet passes out, not d_out
    if is_distribution(label, out):
        return lambda *i: (out[i] - label[i]) * scale(i), unwritten("*i")
    if out.ndim > 2 and not multi_output and not preserve_shape:
        raise UnsupportedError(
            "SoftmaxOutput over several class dimensions is not described: MXNet reads the labels of the wrong rows. Set "
            "preserve_shape (classes last) or multi_output (classes second)"
        )
    smooth = 0.0 if multi_output else smooth_alpha  # MXNet does not smooth under multi_output
    ignored = int(ignore_label)
    residual = residual_of(out, ignored if use_ignore else None, smooth)

    def divisor(positions):
        if normalization == "batch":
            return (label.shape[0] if multi_output else prod(label.shape)) * positions
        if normalization != "valid":
            return positions
        is_valid = lambda *j: where(trunc(label[j]) == ignored, 0.0, 1.0)
        return maximum(1.0, Sum(is_valid, ndim=label.ndim))

    if multi_output:
        size = prod(out.shape[2:])
        value = lambda b, k, s: residual((b, k, *s), k, label_at(label, b, s)) * scale((b, k, *s)) / divisor(size)
        return lambda b, k, *s: value(b, k, s), unwritten(label_dimensions(label, "b", POSITIONS[: out.ndim - 2]))
    return output("*b k", lambda k, *b: residual((*b, k), k, label[b]) * scale((*b, k)) / divisor(1)), unwritten("*b")
