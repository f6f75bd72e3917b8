"""Operators that replace LayerNorm if it is split along the dimension that it normalizes, `k`.

A line is all elements along `k`. Each worker sums its elements of each line. The sums of all workers are added before
the next operator reads them. `count` is the number of elements of a line, over all workers.
"""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.normalization import last
from tofu.tdl import Sum, output, sqrt

EPS = 9.999999747378752e-06


class Lines:
    """Names of the dimensions of the data (`cells`), and of tensors with one number per line (`lines`)."""

    def __init__(self, data, axis, names=""):
        self.axis, self.cells, self.lines = last(data, axis)
        if names:
            self.cells, self.lines = names, " ".join("one" if name == "k" else name for name in names.split())

    def along(self, i, k):
        return (*i[: self.axis], k, *i[self.axis + 1 :])

    def of(self, tensor, i):
        return tensor[self.along(i, 0)]

    def total(self, value):
        return output(self.lines, lambda *i: Sum(lambda k: value(self.along(i, k))))


@op("_tofu_layer_norm_sum")
def layer_norm_sum(data, *, axis=-1):
    return Lines(data, axis).total(lambda i: data[i])


@op("_tofu_layer_norm_squares")
def layer_norm_squares(data, sums, *, count, axis=-1):
    lines = Lines(data, axis)
    deviation = lambda i: data[i] - lines.of(sums, i) / count
    return lines.total(lambda i: deviation(i) * deviation(i))


@op("_tofu_layer_norm_apply")
def layer_norm_apply(data, gamma, beta, sums, squares, *, count, axis=-1, eps=EPS):
    lines = Lines(data, axis)
    mean = lambda i: lines.of(sums, i) / count
    std = lambda i: sqrt(lines.of(squares, i) / count + eps)
    value = lambda i: (data[i] - mean(i)) / std(i) * gamma[i[lines.axis]] + beta[i[lines.axis]]
    return (
        output(lines.cells, lambda *i: value(i)),
        output(lines.lines, lambda *i: mean(i)),
        output(lines.lines, lambda *i: std(i)),
    )


def _normal(lines, data, mean, std):
    return lambda i: (data[i] - lines.of(mean, i)) / lines.of(std, i)


@op("_tofu_layer_norm_backward_sums")
def layer_norm_backward_sums(d_out, data, gamma, mean, std, *, axis=-1):
    lines = Lines(data, axis)
    normal = _normal(lines, data, mean, std)
    scaled = lambda i: d_out[i] * gamma[i[lines.axis]]
    return lines.total(scaled), lines.total(lambda i: scaled(i) * normal(i))


@op("_tofu_layer_norm_backward_apply")
def layer_norm_backward_apply(d_out, data, gamma, mean, std, scaled, projected, *, count, axis=-1):
    lines = Lines(data, axis)
    normal = _normal(lines, data, mean, std)
    common = lambda i: (lines.of(scaled, i) + normal(i) * lines.of(projected, i)) / count
    d_data = lambda i: (d_out[i] * gamma[i[lines.axis]] - common(i)) / lines.of(std, i)
    others = lines.cells.replace("k", "").strip()
    across = lambda f, k: Sum(lambda *i: f((*i[: lines.axis], k, *i[lines.axis :])), names=others)
    return (
        output(lines.cells, lambda *i: d_data(i)),
        lambda k: across(lambda i: d_out[i] * normal(i), k),
        lambda k: across(lambda i: d_out[i], k),
    )
