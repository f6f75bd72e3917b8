"""MakeLoss's gradient divided by the number of valid cells: they are counted over the workers first.

The parts: `csrc/nnvm/parts/make_loss.cc`, described in `tdl_ops/mxnet/make_loss_parts.py`.
"""

from __future__ import annotations

from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Lowering, Parts
from tofu.mxnet.lowerings.conventions import TYPES


def _counts_valid(operator: Operator, inputs: Inputs) -> bool:
    return operator.attributes.get("normalization") == "valid" and inputs[0].dtype in TYPES


def _expand(parts: Parts) -> None:
    own = parts.whole.attributes
    count = parts.inner_tensor("count", (1,))
    threshold = {"valid_thresh": own.get("valid_thresh", "0")}
    parts.inner_operator("count", "_tofu_valid_cells", threshold, parts.whole.inputs, (count,))
    scale = {"grad_scale": own.get("grad_scale", "1")}
    parts.last_operator("_tofu_make_loss_gradient", scale, (*parts.whole.inputs, count))


LOWERINGS = {"_backward_MakeLoss": Lowering(_expand, is_possible=_counts_valid)}
