"""SoftmaxOutput's gradient divided by the number of valid labels, split by batch or position: these are counted over the workers first.

The parts: `csrc/nnvm/softmax_output.cc`, described in `tdl_ops/softmax_output_parts.py`.
"""

from __future__ import annotations

from tofu.graph import Operator
from tofu.lowering.registry import Lowering, Parts, Shapes, is_true, register

KEPT = ("grad_scale", "ignore_label", "use_ignore", "smooth_alpha")


def _is_counted(operator: Operator, shapes: Shapes) -> bool:
    """A label for each line of classes, and nothing but their number to divide by."""
    attributes = operator.attributes
    out, label = map(len, shapes)
    has_lines = out == 2 or any(is_true(attributes, name, False) for name in ("multi_output", "preserve_shape"))
    is_plain = has_lines and label < out and not is_true(attributes, "out_grad", False)
    return is_plain and attributes.get("normalization") == "valid"


def _expand(parts: Parts) -> None:
    out, label = parts.whole.inputs
    attributes = {name: value for name, value in parts.whole.attributes.items() if name in KEPT}
    if is_true(parts.whole.attributes, "multi_output", False):
        attributes["smooth_alpha"] = "0"  # MXNet does not smooth there
        if len(parts.shape(0)) > 2:
            attributes["axis"] = "1"
    attributes["merged"] = str(len(parts.shape(1)) < len(parts.shape(0)) - 1)
    count = parts.inner_tensor("count", (1,))
    parts.inner_operator("count", "_tofu_valid_labels", attributes, (label,), (count,))
    parts.last_operator("_tofu_softmax_output_gradient", attributes, (out, label, count))


register("_backward_SoftmaxOutput", Lowering(_expand, is_possible=_is_counted))
