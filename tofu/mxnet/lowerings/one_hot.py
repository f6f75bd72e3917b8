"""one_hot split by its depth: each worker compares the indices with the positions that it has.

The part: `csrc/nnvm/parts/by_position.cc`, described in `tdl_ops/mxnet/position_parts.py`.
"""

from __future__ import annotations

from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Lowering, Parts
from tofu.mxnet.lowerings.conventions import TYPES

KEPT = ("on_value", "off_value")


def _is_of_one_type(operator: Operator, inputs: Inputs) -> bool:
    """Indices of the result's own type, which the part's kernel knows."""
    return inputs[0].dtype in TYPES and inputs[0].dtype == operator.attributes.get("dtype", "float32")


def _expand(parts: Parts) -> None:
    own = parts.whole.attributes
    attributes = {name: value for name, value in own.items() if name in KEPT}
    parts.last_operator("_tofu_one_hot", attributes | {"extent": own["depth"], "mode": "exact"}, parts.whole.inputs)


LOWERINGS = {"one_hot": Lowering(_expand, is_possible=_is_of_one_type)}
