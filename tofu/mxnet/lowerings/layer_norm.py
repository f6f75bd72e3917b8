"""LayerNorm split along the dimension that it normalises: sums over the workers for each line, then the rest from whole sums.

The parts: `csrc/nnvm/parts/layer_norm.cc`, described in `tdl_ops/mxnet/layer_norm_parts.py`.
"""

from __future__ import annotations

from tofu.lowering.parts import Lowering, Parts
from tofu.mxnet.lowerings.conventions import positive_axis

KEPT = ("eps", "axis")


def _attributes(parts: Parts, slot: int) -> tuple[dict[str, str], tuple[int, ...]]:
    """The attributes of the parts, and the shape of what belongs to a line; the data is the operator's input `slot`."""
    shape = parts.shape(slot)
    kept = {name: value for name, value in parts.whole.attributes.items() if name in KEPT}
    axis = positive_axis(kept, len(shape), -1)
    return {**kept, "count": str(shape[axis])}, (*shape[:axis], 1, *shape[axis + 1 :])


def _expand_forward(parts: Parts) -> None:
    data, gamma, beta = parts.whole.inputs
    attributes, lines = _attributes(parts, 0)
    sums, squares = parts.inner_tensor("sum", lines), parts.inner_tensor("squares", lines)
    parts.inner_operator("sum", "_tofu_layer_norm_sum", attributes, (data,), (sums,))
    parts.inner_operator("squares", "_tofu_layer_norm_squares", attributes, (data, sums), (squares,))
    parts.last_operator("_tofu_layer_norm_apply", attributes, (data, gamma, beta, sums, squares))


def _expand_backward(parts: Parts) -> None:
    attributes, lines = _attributes(parts, 1)
    sums = parts.inner_tensor("scaled", lines), parts.inner_tensor("projected", lines)
    parts.inner_operator("sums", "_tofu_layer_norm_backward_sums", attributes, parts.whole.inputs, sums)
    parts.last_operator("_tofu_layer_norm_backward_apply", attributes, (*parts.whole.inputs, *sums))


LOWERINGS = {"LayerNorm": Lowering(_expand_forward), "_backward_LayerNorm": Lowering(_expand_backward)}
