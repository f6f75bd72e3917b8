"""Regression outputs and MakeLoss: layers whose backward operator starts the gradient and ignores the head gradient.

MXNet divides by sizes of the tensors at hand: the outputs of a sample, the batch. Where those are split, the attribute grad_scale of
the worker's copy, which MXNet holds in single precision, makes up for it.
"""

from __future__ import annotations

from math import prod

from tofu.errors import DescriptionError
from tofu.tdl import constant, exp, op, position, sign, unread, unwritten

SAMPLE = tuple(f"s{d}" for d in range(8))
LINKS = {"Linear": lambda x: x, "Logistic": lambda x: 1 / (1 + exp(-x)), "MAE": lambda x: x}
RESIDUALS = {
    "linear": lambda y, label: y - label,
    "logistic": lambda y, label: y - label,
    "mae": lambda y, label: sign(y - label),
}


def shrink(local, variables):
    """The fraction of the extents of `variables`, all together, that a worker has."""
    return prod(local.extent(name) / local.whole(name) for name in variables)


def _local_regression_scale(local):
    return local.attributes["grad_scale"] * shrink(local, SAMPLE[: len(local.inputs[1].shape) - 1])


def _describe_regression(link):
    # The label of data (n, 1) may be (n,).
    return lambda data, label: lambda b, *s: link(data[(b, *s)]) + unread(label[(b, *s)[: label.ndim]])


def _describe_regression_gradient(residual):
    def description(label, out, *, grad_scale=1.0):
        value = lambda i: residual(out[i], label[i[: label.ndim]]) * grad_scale / prod(label.shape[1:])
        return lambda b, *s: value((b, *s)), unwritten("b *s")

    return description


for _name, _link in LINKS.items():
    op(f"{_name}RegressionOutput")(_describe_regression(_link))
for _name, _residual in RESIDUALS.items():
    op(f"_backward_{_name}_reg_out", bound={"grad_scale": _local_regression_scale}, corrects=SAMPLE)(
        _describe_regression_gradient(_residual)
    )


def _local_loss_scale(local):
    is_batch = local.attributes["normalization"] == "batch"
    return local.attributes["grad_scale"] * (shrink(local, ["b"]) if is_batch else 1)


@op("MakeLoss", bound={"grad_scale": _local_loss_scale})
def make_loss(data, *, grad_scale=1.0, normalization="null"):
    return lambda b, *s: data[(b, *s)]


@op("_backward_MakeLoss", bound={"grad_scale": _local_loss_scale}, corrects=("b",))
def backward_make_loss(*, grad_scale=1.0, normalization="null"):
    if normalization == "valid":
        raise DescriptionError("MakeLoss(normalization=valid) is not described: it counts the data above valid_thresh")
    return lambda b, *s: constant(grad_scale) / (position(b.extent) if normalization == "batch" else 1)
