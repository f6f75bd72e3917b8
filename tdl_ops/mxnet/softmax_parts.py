"""Operators that replace softmax, log_softmax and SoftmaxOutput if they are split along their own dimension, `k`.

A line is all elements along `k`. Each worker finds the maximum of its elements of a line, then sums their exponentials.
The results of all workers are combined before the next operator reads them. `names` are the index variables of the
replaced operator.
"""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.layer_norm_parts import Lines
from tdl_ops.mxnet.softmax_output import line_label
from tofu.tdl import Max, exp, log, output, unread


@op("_tofu_softmax_maximum")
def softmax_maximum(data, *, axis=-1, names=""):
    lines = Lines(data, axis, names)
    return output(lines.lines, lambda *i: Max(lambda k: data[lines.along(i, k)]))


def _below(lines, data, largest, temperature):
    return lambda i: (data[i] - lines.of(largest, i)) / (temperature or 1.0)


@op("_tofu_softmax_sum")
def softmax_sum(data, largest, *, axis=-1, temperature=1.0, names=""):
    lines = Lines(data, axis, names)
    below = _below(lines, data, largest, temperature)
    return lines.total(lambda i: exp(below(i)))


@op("_tofu_softmax_apply")
def softmax_apply(data, largest, sums, *, axis=-1, temperature=1.0):
    lines = Lines(data, axis)
    below = _below(lines, data, largest, temperature)
    return output(lines.cells, lambda *i: exp(below(i)) / lines.of(sums, i))


@op("_tofu_softmax_output_apply")
def softmax_output_apply(data, largest, sums, label, *, names, axis=-1):
    lines = Lines(data, axis, names)
    below = _below(lines, data, largest, 1.0)
    labels = lambda i: unread(line_label(label, i, lines.axis))
    return output(lines.cells, lambda *i: exp(below(i)) / lines.of(sums, i) + labels(i))


@op("_tofu_log_softmax_apply")
def log_softmax_apply(data, largest, sums, *, axis=-1, temperature=1.0):
    lines = Lines(data, axis)
    below = _below(lines, data, largest, temperature)
    return output(lines.cells, lambda *i: below(i) - log(lines.of(sums, i)))


@op("_tofu_softmax_backward_sum")
def softmax_backward_sum(d_out, out, *, axis=-1):
    return Lines(out, axis).total(lambda i: d_out[i] * out[i])


@op("_tofu_log_softmax_backward_sum")
def log_softmax_backward_sum(d_out, *, axis=-1):
    return Lines(d_out, axis).total(lambda i: d_out[i])


@op("_tofu_softmax_backward_apply")
def softmax_backward_apply(d_out, out, sums, *, axis=-1, temperature=1.0):
    lines = Lines(out, axis)
    return output(lines.cells, lambda *i: out[i] * (d_out[i] - lines.of(sums, i)) / (temperature or 1.0))


@op("_tofu_log_softmax_backward_apply")
def log_softmax_backward_apply(d_out, out, sums, *, axis=-1, temperature=1.0):
    lines = Lines(out, axis)
    return output(lines.cells, lambda *i: (d_out[i] - exp(out[i]) * lines.of(sums, i)) / (temperature or 1.0))
