"""Losses: regression outputs, MakeLoss, SVMOutput, IdentityAttachKLSparseReg and softmax_cross_entropy.

The backward operators of the first three ignore the gradient of their output.

With normalization="batch", MakeLoss divides grad_scale by the batch size. Workers have smaller batches. They get the
quotient as grad_scale, and do not divide. A regression divides grad_scale by the number of outputs per sample. It can
be split within a sample only if the quotient is 1. Otherwise, Tofu's own operator replaces it.
"""

from math import prod

import numpy as np

from tdl_ops.mxnet import op
from tofu.errors import UnsupportedError
from tofu.tdl import Sum, constant, exp, log, maximum, output, position, sign, trunc, unread, unwritten, where

SMALLEST = 1e-8  # smallest argument that MXNet passes to the logarithm of a cross entropy
SAMPLE = tuple(f"s{d}" for d in range(8))
LINKS = {"Linear": lambda x: x, "Logistic": lambda x: 1 / (1 + exp(-x)), "MAE": lambda x: x}
RESIDUALS = {
    "linear": lambda y, label: y - label,
    "logistic": lambda y, label: y - label,
    "mae": lambda y, label: sign(y - label),
}


def _local_regression_scale(local):
    names = SAMPLE[: min(len(local.inputs[0].shape), len(local.inputs[1].shape)) - 1]
    own, whole = (prod(extent(name) for name in names) for extent in (local.extent, local.whole))
    scale = local.attributes["grad_scale"]
    return float(own) if scale == whole else scale


def _label_at(label, data, i):
    if label.ndim not in (1, data.ndim) and data.ndim > 1:
        raise UnsupportedError(
            f"a label of {label.ndim} dimensions for data of {data.ndim} is not described; give the label the shape of the data"
        )
    return label[(*i[: label.ndim], *(0 for _ in label.shape[data.ndim :]))]


def _describe_regression(link):
    return lambda data, label: lambda b, *s: link(data[(b, *s)]) + unread(_label_at(label, data, (b, *s)))


def _describe_regression_gradient(residual):
    def description(label, out, *, grad_scale=1.0):
        is_residual = grad_scale == prod(label.shape[1:])  # the quotient is then 1, on workers as well
        scale = lambda s: 1 if is_residual else grad_scale / prod(position(variable.extent) for variable in s)
        value = lambda b, *s: residual(out[(b, *s)], _label_at(label, out, (b, *s))) * scale(s)
        return value, unwritten("b *s")

    return description


for _name, _link in LINKS.items():
    op(f"{_name}RegressionOutput")(_describe_regression(_link))
for _name, _residual in RESIDUALS.items():
    op(f"_backward_{_name}_reg_out", bound={"grad_scale": _local_regression_scale}, concrete=True)(
        _describe_regression_gradient(_residual)
    )


def divide_by_rows(divides, list_rows):
    # If divides(local) is True, grad_scale is divided by the number of all workers' rows.
    def scale(local):
        whole_scale = local.attributes["grad_scale"]
        if not divides(local):
            return whole_scale
        return float(np.float32(whole_scale) / np.float32(prod(local.whole(name) for name in list_rows(local))))

    return {
        "grad_scale": scale,
        "normalization": lambda local: "null" if divides(local) else local.attributes["normalization"],
    }


LOSS = divide_by_rows(
    lambda local: local.attributes["normalization"] == "batch",
    lambda local: ("b", *SAMPLE)[: len(local.outputs[0].shape) - 1],  # all dimensions but the last; for a vector, none
)


@op("MakeLoss", bound=LOSS)
def make_loss(data, *, grad_scale=1.0, normalization="null"):
    return lambda b, *s: data[(b, *s)]


@op("_backward_MakeLoss", bound=LOSS, corrects=("b", *SAMPLE))
def backward_make_loss(*kept, grad_scale=1.0, normalization="null", valid_thresh=0.0):
    if normalization == "valid":  # counts in all of the data, assumed to be as large as the result
        (data,) = kept
        count = lambda: Sum(lambda *j: where(data[j] > valid_thresh, 1.0, 0.0), ndim=data.ndim)
        return lambda b, *s: constant(grad_scale) / maximum(1.0, count()) + unread(data[(b, *s)])
    rows = lambda i: prod(position(variable.extent) for variable in i[:-1]) if normalization == "batch" else 1
    return lambda b, *s: constant(grad_scale) / rows((b, *s))


@op("SVMOutput")
def svm_output(data, label):
    return output("*b k", lambda k, *b: data[(*b, k)] + unread(label[b]))


@op("_backward_SVMOutput")
def backward_svm_output(label, out, *, margin=1.0, regularization_coefficient=1.0, use_linear=False):
    slack = lambda side, b, k: margin - side * out[(*b, k)]
    hinge = lambda x: where(x > 0, 1.0, 0.0) if use_linear else 2 * maximum(x, 0.0)
    side = lambda b, k: where(position(k) == trunc(label[b]), 1.0, -1.0)
    value = lambda side, b, k: -side * hinge(slack(side, b, k)) * regularization_coefficient
    return output("*b k", lambda k, *b: value(side(b, k), b, k)), unwritten("*b")


@op("IdentityAttachKLSparseReg")
def identity_attach_kl_sparse_reg(data, moving_avg):
    return lambda b, c: data[b, c] + 0 * moving_avg[c]


@op("_backward_IdentityAttachKLSparseReg")
def backward_identity_attach_kl_sparse_reg(
    d_out, data, moving_avg, *, sparseness_target=0.1, penalty=0.001, momentum=0.9
):
    mean = lambda c: Sum(lambda r: data[r, c]) / data.shape[0]
    average = lambda c: momentum * moving_avg[c] + (1 - momentum) * mean(c)
    slope = lambda a: (1 - sparseness_target) / (1 - a) - sparseness_target / a
    return lambda b, c: d_out[b, c] + 0 * data[b, c] + penalty * slope(average(c))


def _probability(data, b, k):
    return exp(data[b, k]) / Sum(lambda j: exp(data[b, j]))


@op("softmax_cross_entropy")
def softmax_cross_entropy(data, label):
    own = lambda b, k: where(position(k) == trunc(label[b]), log(maximum(_probability(data, b, k), SMALLEST)), 0.0)
    return lambda one: -Sum(lambda b: Sum(lambda k: own(b, k)))


@op("_backward_softmax_cross_entropy")
def backward_softmax_cross_entropy(d_out, data, label):
    target = lambda b, k: where(position(k) == trunc(label[b]), 1.0, 0.0)
    return lambda b, k: d_out[0] * (_probability(data, b, k) - target(b, k)), unwritten("b")
