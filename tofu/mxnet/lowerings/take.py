"""Embedding and take split along the dimension that indices choose from, the rows of a table: each worker looks up those that it has.

The others are zeros, so that the sum over the workers is exact; of the gradient every worker has the rows of its own part. The parts:
`csrc/nnvm/parts/take.cc`, described in `tdl_ops/mxnet/take_parts.py`.
"""

from __future__ import annotations

from tofu.graph import Operator
from tofu.lowering.parts import Attributes, Inputs, Lowering, Parts
from tofu.mxnet.lowerings.conventions import TYPES, positive_axis


def _lower_lookup(op: str, table: int, indices: int) -> dict[str, Lowering]:
    """The lowerings of a lookup, by the positions of its inputs, and of its gradient, whose outputs stand in the same order."""

    def is_possible(operator: Operator, inputs: Inputs) -> bool:
        """Numbers that are added up."""
        values = 0 if operator.op.startswith("_backward") else table
        return inputs[values].dtype in TYPES

    def expand_forward(parts: Parts) -> None:
        attributes = _attributes(parts, parts.shape(table), len(parts.shape(indices)))
        raises = parts.whole.attributes.get("mode") == "raise"
        rows = _check(parts, indices, attributes) if raises else parts.whole.inputs[indices]
        parts.last_operator("_tofu_take", attributes, (parts.whole.inputs[table], rows))

    def expand_backward(parts: Parts) -> None:
        attributes = _attributes(parts, parts.output_shape(table), len(parts.shape(1)))
        extent = {"extent": attributes["rows"]}
        gradient = (parts.whole.outputs[table],)
        parts.last_operator("_tofu_take_backward", attributes | extent, parts.whole.inputs, outputs=gradient)

    return {
        op: Lowering(expand_forward, is_possible=is_possible),
        f"_backward_{op}": Lowering(expand_backward, is_possible=is_possible),
    }


def _check(parts: Parts, slot: int, attributes: Attributes) -> int:
    """The indices, of which MXNet's own kernel has found none out of range: every worker looks all of them up in as many zeros as the table
    has rows, with mode="raise", and adds what it finds. Its error is that of the indices, and so of all that reads them.
    """
    indices, shape = parts.whole.inputs[slot], parts.shape(slot)
    dtype, axis = parts.graph_tensors[indices].dtype, int(attributes["axis"])
    named = tuple(attributes["names"].split()[axis : axis + len(shape)])
    zeros = parts.inner_tensor("zeros", (int(attributes["rows"]),), dtype)
    made = {"shape": str((int(attributes["rows"]),)), "dtype": dtype}
    parts.inner_operator("zeros", "_zeros", made, (), (zeros,), names=(("",),))
    found, checked = (parts.inner_tensor(name, shape, dtype) for name in ("found", "checked"))
    raising = {"axis": "0", "mode": "raise"}
    parts.inner_operator("found", "take", raising, (zeros, indices), (found,), names=(("",), named, named))
    parts.inner_operator("checked", "elemwise_add", {}, (indices, found), (checked,), names=(named,) * 3)
    return checked


def _attributes(parts: Parts, table: tuple[int, ...], rank: int) -> dict[str, str]:
    """The attributes of the parts; their index variables are called as those of the stock operator."""
    own = parts.whole.attributes
    axis = positive_axis(own, len(table), 0)
    inside = [f"i{d}" for d in range(rank)]
    after = ["e"] if "Embedding" in parts.whole.op else [f"z{d}" for d in range(len(table) - axis - 1)]
    return {
        "axis": str(axis),
        "rows": str(table[axis]),
        "mode": own.get("mode", "clip").replace("raise", "wrap"),  # as its kernel does with what it has checked
        "names": " ".join([*(f"a{d}" for d in range(axis)), *inside, *after]),
    }


LOWERINGS = _lower_lookup("Embedding", table=1, indices=0) | _lower_lookup("take", table=0, indices=1)
