"""softmax and log_softmax split along their own dimension: the largest number of each line, then its sum of exponentials, over the workers.

The parts: `csrc/nnvm/parts/softmax.cc`, described in `tdl_ops/mxnet/softmax_parts.py`.
"""

from __future__ import annotations

from tofu.graph import Operator
from tofu.lowering.parts import Attributes, Inputs, Lowering, Parts
from tofu.mxnet.lowerings.conventions import check_type, is_true, positive_axis


def _is_plain(operator: Operator, inputs: Inputs) -> bool:
    """Lengths and another type of the result are left to the stock kernel."""
    attributes = operator.attributes
    return not is_true(attributes, "use_length", False) and attributes.get("dtype", "None") == "None"


def _attributes(parts: Parts, slot: int) -> tuple[dict[str, str], tuple[int, ...]]:
    """The attributes of the parts, and the shape of what belongs to a line, from the operator's input `slot`."""
    shape = parts.shape(slot)
    kept = {name: value for name, value in parts.whole.attributes.items() if name in ("axis", "temperature")}
    axis = positive_axis(kept, len(shape), -1)
    return kept, (*shape[:axis], 1, *shape[axis + 1 :])


def expand_softmax(parts: Parts, attributes: Attributes, last: str, unread: tuple[int, ...] = ()) -> None:
    """The parts of a softmax of the operator's first input; the `last` one is given inputs besides that it does not read."""
    data, shape = parts.whole.inputs[0], parts.shape(0)
    axis = positive_axis(attributes, len(shape), -1)
    lines = (*shape[:axis], 1, *shape[axis + 1 :])
    largest = parts.inner_tensor("largest", lines, check_type(parts.whole, parts.graph_tensors[data].dtype))
    sums = parts.inner_tensor("sum", lines)
    parts.inner_operator("largest", "_tofu_softmax_maximum", attributes, (data,), (largest,))
    parts.inner_operator("sum", "_tofu_softmax_sum", attributes, (data, largest), (sums,))
    parts.last_operator(last, attributes, (data, largest, sums, *unread))


def _expand_forward(parts: Parts, name: str) -> None:
    attributes, _ = _attributes(parts, 0)
    expand_softmax(parts, attributes, f"_tofu_{name}_apply")


def _expand_backward(parts: Parts, name: str) -> None:
    d_out, out = parts.whole.inputs
    attributes, lines = _attributes(parts, 1)
    sums = parts.inner_tensor("sum", lines)
    read = (d_out, out) if name == "softmax" else (d_out,)
    parts.inner_operator("sum", f"_tofu_{name}_backward_sum", attributes, read, (sums,))
    parts.last_operator(f"_tofu_{name}_backward_apply", attributes, (d_out, out, sums))


LOWERINGS = {
    "softmax": Lowering(lambda parts: _expand_forward(parts, "softmax"), is_possible=_is_plain),
    "log_softmax": Lowering(lambda parts: _expand_forward(parts, "log_softmax"), is_possible=_is_plain),
    "_backward_softmax": Lowering(lambda parts: _expand_backward(parts, "softmax"), is_possible=_is_plain),
    "_backward_log_softmax": Lowering(lambda parts: _expand_backward(parts, "log_softmax"), is_possible=_is_plain),
}
