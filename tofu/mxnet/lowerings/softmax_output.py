"""SoftmaxOutput split by classes, and its gradient: the softmax goes as any other, and each worker compares labels with its own classes.

Where a gradient is divided by the number of valid labels, those are counted over the workers first. The parts:
`csrc/nnvm/parts/softmax_output.cc` and `softmax.cc`, described in `tdl_ops/mxnet/softmax_output_parts.py` and `softmax_parts.py`.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Lowering, Parts
from tofu.mxnet.lowerings.conventions import is_true
from tofu.mxnet.lowerings.softmax import expand_softmax

KEPT = ("ignore_label", "use_ignore")


def _has_classes(operator: Operator, inputs: Inputs) -> bool:
    """A label for each line of classes, and no factor but numbers."""
    attributes = operator.attributes
    data, label = (tensor.shape for tensor in inputs)
    has_lines = len(data) == 2 or any(is_true(attributes, name, False) for name in ("multi_output", "preserve_shape"))
    return has_lines and label != data and not is_true(attributes, "out_grad", False)


def _classes(parts: Parts) -> tuple[int, dict[str, str]]:
    """The dimension of the classes, and attributes of all parts: that, and how the stock operator's index variables are called."""
    rank = len(parts.shape(0))
    is_multi = is_true(parts.whole.attributes, "multi_output", False)
    axis = 1 if is_multi else rank - 1
    names = ["b", "k", *(f"s{d}" for d in range(rank - 2))] if is_multi else [*(f"b{d}" for d in range(axis)), "k"]
    return axis, {"axis": str(axis), "names": " ".join(names)}


def _expand_forward(parts: Parts) -> None:
    _, attributes = _classes(parts)
    expand_softmax(parts, attributes, "_tofu_softmax_output_apply", parts.whole.inputs[1:])


def _expand_backward(parts: Parts) -> None:
    own = parts.whole.attributes
    axis, attributes = _classes(parts)
    attributes |= {name: value for name, value in own.items() if name in KEPT}
    attributes["classes"] = str(parts.shape(0)[axis])
    attributes["grad_scale"] = str(_scale(parts))
    if not is_true(own, "multi_output", False):  # MXNet does not smooth there
        attributes["smooth_alpha"] = own.get("smooth_alpha", "0")
    gradient = parts.whole.outputs[:1]
    if own.get("normalization") != "valid":
        parts.last_operator("_tofu_softmax_output_gradient", attributes, parts.whole.inputs, outputs=gradient)
        return
    names = _label_names(parts, attributes["names"])
    counted = {"names": " ".join(names), "ignore_label": own.get("ignore_label", "-1")}
    count = parts.inner_tensor("count", (1,))
    # With names for its dimensions, it may lack an axis: where classes are split, every worker counts all labels.
    dimensions = tuple("" if name == "only" else name for name in names), ("",)
    parts.inner_operator("count", "_tofu_valid_labels", counted, parts.whole.inputs[1:], (count,), names=dimensions)
    inputs = *parts.whole.inputs, count
    parts.last_operator("_tofu_softmax_output_gradient_by_count", attributes, inputs, outputs=gradient)


def _label_names(parts: Parts, names: str) -> list[str]:
    """How the index variables of the label are called: that of all positions, where they are merged, is `m`."""
    first, *others = (name for name in names.split() if name != "k")
    rank = len(parts.shape(1))
    if rank == 2 + len(others):
        return [first, "only", *others]
    return [first, *others] if rank == 1 + len(others) else [first, "m"]


def _scale(parts: Parts) -> float:
    """What every cell is multiplied by, but for the number of valid labels, in single precision and divided in MXNet's order."""
    own, out, label = parts.whole.attributes, parts.shape(0), parts.shape(1)
    scale = np.float32(own.get("grad_scale", "1"))
    normalization = own.get("normalization", "null")
    is_multi = is_true(own, "multi_output", False)
    if is_multi and normalization != "valid":
        scale /= np.float32(prod(out[2:]))
    if normalization == "batch":
        scale /= np.float32(label[0] if is_multi else prod(label))
    return float(scale)


LOWERINGS = {
    "SoftmaxOutput": Lowering(_expand_forward, is_possible=_has_classes),
    "_backward_SoftmaxOutput": Lowering(_expand_backward, is_possible=_has_classes),
}
