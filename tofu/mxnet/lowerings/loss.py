"""Replace gradients of MakeLoss with normalization="valid", and of regression outputs, so that they can be split.

For MakeLoss, the workers first count the valid elements. A regression divides grad_scale by the number of outputs per
sample, which is too small in a shard. An added operator corrects the scale.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Lowering, Parts
from tofu.mxnet.frontend.origin import find_origin
from tofu.mxnet.lowerings.conventions import TYPES


def _counts_valid(operator: Operator, inputs: Inputs) -> bool:
    return operator.attributes.get("normalization") == "valid" and inputs[0].dtype in TYPES


def _expand_make_loss(parts: Parts) -> None:
    attributes = parts.whole.attributes
    count = parts.inner_tensor("count", (1,))
    threshold = {"valid_thresh": attributes.get("valid_thresh", "0")}
    parts.inner_operator("count", "_tofu_valid_cells", threshold, parts.whole.inputs, (count,))
    scale = {"grad_scale": attributes.get("grad_scale", "1")}
    parts.last_operator("_tofu_make_loss_gradient", scale, (*parts.whole.inputs, count))


def _divides_scale(operator: Operator, inputs: Inputs) -> bool:
    outputs = prod(inputs[0].shape[1:])
    return outputs > 1 and _read_scale(operator) != outputs and inputs[1].dtype in TYPES


def _read_scale(operator: Operator) -> np.float32:
    return np.float32(operator.attributes.get("grad_scale", "1"))


def _expand_regression(parts: Parts) -> None:
    label, out = (parts.graph_tensors[position] for position in parts.whole.inputs)
    outputs = prod(label.shape[1:])
    difference = parts.inner_tensor("difference", out.shape, out.dtype)
    unwritten = parts.inner_tensor("unwritten", label.shape, label.dtype)
    plain_scale = {"grad_scale": str(outputs)}  # with this scale the kernel computes plain differences
    origin = replace(find_origin(parts.whole), rewritten=plain_scale)
    inputs, kernel_outputs = parts.whole.inputs, (difference, unwritten)
    parts.inner_operator("difference", parts.whole.op, plain_scale, inputs, kernel_outputs, origin)
    quotient = {"grad_scale": str(float(_read_scale(parts.whole) / np.float32(outputs)))}
    parts.last_operator("_tofu_scale", quotient, (difference,), outputs=parts.whole.outputs[:1])


LOWERINGS = {
    "_backward_MakeLoss": Lowering(_expand_make_loss, is_possible=_counts_valid),
    **{
        f"_backward_{name}_reg_out": Lowering(_expand_regression, is_possible=_divides_scale)
        for name in ("linear", "logistic", "mae")
    },
}
