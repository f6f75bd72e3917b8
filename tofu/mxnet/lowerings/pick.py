"""pick split along the dimension that indices choose from, classes for instance: each worker picks what it has, the sum is exact.

The parts: `csrc/nnvm/parts/take.cc`, described in `tdl_ops/mxnet/take_parts.py`.
"""

from __future__ import annotations

from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Lowering, Parts
from tofu.mxnet.lowerings.conventions import TYPES, is_true, positive_axis


def _is_clear(operator: Operator, inputs: Inputs) -> bool:
    """A dimension to choose from, of numbers that can be added up."""
    return inputs[0].dtype in TYPES and operator.attributes.get("axis", "-1") != "None"


def _attributes(parts: Parts, data: tuple[int, ...]) -> dict[str, str]:
    own = parts.whole.attributes
    axis = positive_axis(own, len(data), -1)
    keepdims = str(is_true(own, "keepdims", False))
    return {"axis": str(axis), "rows": str(data[axis]), "mode": own.get("mode", "clip"), "keepdims": keepdims}


def _expand_forward(parts: Parts) -> None:
    parts.last_operator("_tofu_pick", _attributes(parts, parts.shape(0)), parts.whole.inputs)


def _expand_backward(parts: Parts) -> None:
    attributes = _attributes(parts, parts.output_shape(0))
    extent = {"extent": attributes["rows"]}
    parts.last_operator("_tofu_pick_backward", attributes | extent, parts.whole.inputs)


LOWERINGS = {
    "pick": Lowering(_expand_forward, is_possible=_is_clear),
    "_backward_pick": Lowering(_expand_backward, is_possible=_is_clear),
}
