"""Embedding and take split along the dimension that indices choose from, the rows of a table: each worker looks up those that it has.

The others are zeros, so that the sum over the workers is exact; of the gradient every worker has the rows of its own part. The parts:
`csrc/nnvm/parts/take.cc`, described in `tdl_ops/mxnet/take_parts.py`.
"""

from __future__ import annotations

from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Lowering, Parts
from tofu.mxnet.lowerings.conventions import TYPES, positive_axis


def _lower_lookup(op: str, table: int, indices: int) -> dict[str, Lowering]:
    """The lowerings of a lookup, by the positions of its inputs, and of its gradient, whose outputs stand in the same order."""

    def is_possible(operator: Operator, inputs: Inputs) -> bool:
        """Numbers that are added up, and a meaning for every index: mode="raise" is left to the stock kernel."""
        values = 0 if operator.op.startswith("_backward") else table
        return inputs[values].dtype in TYPES and operator.attributes.get("mode", "clip") != "raise"

    def expand_forward(parts: Parts) -> None:
        inputs = parts.whole.inputs[table], parts.whole.inputs[indices]
        attributes = _attributes(parts, parts.shape(table), len(parts.shape(indices)))
        parts.last_operator("_tofu_take", attributes, inputs)

    def expand_backward(parts: Parts) -> None:
        attributes = _attributes(parts, parts.output_shape(table), len(parts.shape(1)))
        extent = {"extent": attributes["rows"]}
        gradient = (parts.whole.outputs[table],)
        parts.last_operator("_tofu_take_backward", attributes | extent, parts.whole.inputs, outputs=gradient)

    return {
        op: Lowering(expand_forward, is_possible=is_possible),
        f"_backward_{op}": Lowering(expand_backward, is_possible=is_possible),
    }


def _attributes(parts: Parts, table: tuple[int, ...], rank: int) -> dict[str, str]:
    """The attributes of the parts; their index variables are called as those of the stock operator."""
    own = parts.whole.attributes
    axis = positive_axis(own, len(table), 0)
    inside = [f"i{d}" for d in range(rank)]
    after = ["e"] if "Embedding" in parts.whole.op else [f"z{d}" for d in range(len(table) - axis - 1)]
    return {
        "axis": str(axis),
        "rows": str(table[axis]),
        "mode": own.get("mode", "clip"),
        "names": " ".join([*(f"a{d}" for d in range(axis)), *inside, *after]),
    }


LOWERINGS = _lower_lookup("Embedding", table=1, indices=0) | _lower_lookup("take", table=0, indices=1)
