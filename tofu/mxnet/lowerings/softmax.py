"""Replace softmax, log_softmax and SoftmaxOutput, so that the dimension that they normalise can be split.

The workers first find the maximum along this dimension, then the sum of exponentials. For SoftmaxOutput, each worker
compares the labels with the classes of its shard. If the gradient is divided by the number of valid labels, the workers
count them first.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tdl_ops.mxnet.attributes import is_true
from tofu.graph import Operator
from tofu.lowering.parts import Attributes, Inputs, Lowering, Parts
from tofu.mxnet.lowerings.conventions import check_type, positive_axis, reduce_shape, select_attributes


def _is_plain(operator: Operator, inputs: Inputs) -> bool:
    attributes = operator.attributes
    return not is_true(attributes, "use_length") and attributes.get("dtype", "None") == "None"


def _softmax_attributes(parts: Parts) -> dict[str, str]:
    return select_attributes(parts.whole.attributes, "axis", "temperature")


def _reduce_to_lines(shape: tuple[int, ...], attributes: Attributes) -> tuple[int, ...]:
    return reduce_shape(shape, positive_axis(attributes, len(shape), -1))


def _expand_softmax(parts: Parts, attributes: Attributes, last_op: str, unread: tuple[int, ...] = ()) -> None:
    data, lines = parts.whole.inputs[0], _reduce_to_lines(parts.shape(0), attributes)
    largest = parts.inner_tensor("largest", lines, check_type(parts.whole, parts.graph_tensors[data].dtype))
    sums = parts.inner_tensor("sum", lines)
    parts.inner_operator("largest", "_tofu_softmax_maximum", attributes, (data,), (largest,))
    parts.inner_operator("sum", "_tofu_softmax_sum", attributes, (data, largest), (sums,))
    parts.last_operator(last_op, attributes, (data, largest, sums, *unread))


def _expand_plain_softmax(parts: Parts) -> None:
    _expand_softmax(parts, _softmax_attributes(parts), f"_tofu_{parts.whole.op}_apply")


def _expand_softmax_gradient(parts: Parts) -> None:
    op, (d_out, out) = parts.whole.op.removeprefix("_backward_"), parts.whole.inputs
    attributes = _softmax_attributes(parts)
    sums = parts.inner_tensor("sum", _reduce_to_lines(parts.shape(1), attributes))
    summed = (d_out, out) if op == "softmax" else (d_out,)
    parts.inner_operator("sum", f"_tofu_{op}_backward_sum", attributes, summed, (sums,))
    parts.last_operator(f"_tofu_{op}_backward_apply", attributes, (d_out, out, sums))


def _has_classes(operator: Operator, inputs: Inputs) -> bool:
    attributes = operator.attributes
    data, label = (tensor.shape for tensor in inputs)
    has_lines = len(data) == 2 or any(is_true(attributes, name) for name in ("multi_output", "preserve_shape"))
    return has_lines and label != data and not is_true(attributes, "out_grad")


def _class_attributes(parts: Parts) -> tuple[int, dict[str, str]]:
    rank = len(parts.shape(0))
    is_multi = is_true(parts.whole.attributes, "multi_output")
    axis = 1 if is_multi else rank - 1
    names = ["b", "k", *(f"s{d}" for d in range(rank - 2))] if is_multi else [*(f"b{d}" for d in range(axis)), "k"]
    return axis, {"axis": str(axis), "names": " ".join(names)}


def _expand_output(parts: Parts) -> None:
    _, attributes = _class_attributes(parts)
    _expand_softmax(parts, attributes, "_tofu_softmax_output_apply", parts.whole.inputs[1:])


def _expand_output_gradient(parts: Parts) -> None:
    whole_attributes = parts.whole.attributes
    axis, attributes = _class_attributes(parts)
    attributes |= select_attributes(whole_attributes, "ignore_label", "use_ignore")
    attributes |= {"classes": str(parts.shape(0)[axis]), "grad_scale": str(_output_scale(parts))}
    if not is_true(whole_attributes, "multi_output"):  # MXNet does not smooth with multi_output
        attributes["smooth_alpha"] = whole_attributes.get("smooth_alpha", "0")
    gradient = parts.whole.outputs[:1]
    if whole_attributes.get("normalization") != "valid":
        parts.last_operator("_tofu_softmax_output_gradient", attributes, parts.whole.inputs, outputs=gradient)
        return
    names = _label_names(parts, attributes["names"])
    count_attributes = {"names": " ".join(names), "ignore_label": whole_attributes.get("ignore_label", "-1")}
    count, labels = parts.inner_tensor("count", (1,)), parts.whole.inputs[1:]
    # Labels have no class dimension. If the classes are split, every worker counts all labels.
    dimensions = tuple("" if name == "only" else name for name in names), ("",)
    parts.inner_operator("count", "_tofu_valid_labels", count_attributes, labels, (count,), names=dimensions)
    inputs = *parts.whole.inputs, count
    parts.last_operator("_tofu_softmax_output_gradient_by_count", attributes, inputs, outputs=gradient)


def _label_names(parts: Parts, names: str) -> list[str]:
    first, *others = (name for name in names.split() if name != "k")
    rank = len(parts.shape(1))
    if rank == 2 + len(others):
        return [first, "only", *others]
    return [first, *others] if rank == 1 + len(others) else [first, "m"]


def _output_scale(parts: Parts) -> float:
    attributes, out_shape, label_shape = parts.whole.attributes, parts.shape(0), parts.shape(1)
    scale = np.float32(attributes.get("grad_scale", "1"))
    normalization = attributes.get("normalization", "null")
    is_multi = is_true(attributes, "multi_output")
    if is_multi and normalization != "valid":
        scale /= np.float32(prod(out_shape[2:]))
    if normalization == "batch":
        scale /= np.float32(label_shape[0] if is_multi else prod(label_shape))
    return float(scale)


LOWERINGS = {
    "softmax": Lowering(_expand_plain_softmax, is_possible=_is_plain),
    "log_softmax": Lowering(_expand_plain_softmax, is_possible=_is_plain),
    "_backward_softmax": Lowering(_expand_softmax_gradient, is_possible=_is_plain),
    "_backward_log_softmax": Lowering(_expand_softmax_gradient, is_possible=_is_plain),
    "SoftmaxOutput": Lowering(_expand_output, is_possible=_has_classes),
    "_backward_SoftmaxOutput": Lowering(_expand_output_gradient, is_possible=_has_classes),
}
