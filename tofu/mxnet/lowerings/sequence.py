"""SequenceMask and SequenceLast split by time: each worker compares the lengths with the time steps that it has.

A last step is picked by the worker that has it, the others have zeros, so that the sum is exact. The parts:
`csrc/nnvm/parts/by_position.cc` and `take.cc`, described in `tdl_ops/mxnet/position_parts.py` and `take_parts.py`.
"""

from __future__ import annotations

import numpy as np

from tofu.graph import Operator
from tofu.lowering.parts import Attributes, Inputs, Lowering, Parts
from tofu.mxnet.lowerings.conventions import TYPES, positive_axis


def _has_lengths(operator: Operator, inputs: Inputs) -> bool:
    """Numbers, and a length for each sequence of them."""
    return len(inputs) == 2 and inputs[0].dtype in TYPES


def _expand_mask(parts: Parts) -> None:
    own = parts.whole.attributes
    value = float(np.float32(own.get("value", "0")))  # as MXNet holds it
    parts.last_operator(
        "_tofu_sequence_mask", {**_time(parts.whole.attributes), "off_value": str(value)}, parts.whole.inputs
    )


def _expand_mask_backward(parts: Parts) -> None:
    parts.last_operator(
        "_tofu_sequence_mask", _time(parts.whole.attributes), parts.whole.inputs, outputs=parts.whole.outputs[:1]
    )


def _expand_last(parts: Parts) -> None:
    parts.last_operator("_tofu_pick", pick_by_lengths(parts.whole.attributes, parts.shape(0)), parts.whole.inputs)


def _expand_last_backward(parts: Parts) -> None:
    attributes = pick_by_lengths(parts.whole.attributes, parts.output_shape(0))
    extent = {"extent": attributes["rows"]}
    gradient = parts.whole.outputs[:1]
    parts.last_operator("_tofu_pick_backward", attributes | extent, parts.whole.inputs, outputs=gradient)


def _time(attributes: Attributes) -> dict[str, str]:
    return {"axis": str(positive_axis(attributes, 2, 0)), "mode": "length"}


def pick_by_lengths(attributes: Attributes, data: tuple[int, ...]) -> dict[str, str]:
    """The attributes of a pick by lengths; its index variables are called as those of the stock operator."""
    time = _time(attributes)
    names = ["b", *(f"i{d}" for d in range(len(data) - 2))]
    return {**time, "rows": str(data[int(time["axis"])]), "names": " ".join(names)}


LOWERINGS = {
    "SequenceMask": Lowering(_expand_mask, is_possible=_has_lengths),
    "_backward_SequenceMask": Lowering(_expand_mask_backward, is_possible=_has_lengths),
    "SequenceLast": Lowering(_expand_last, is_possible=_has_lengths),
    "_backward_SequenceLast": Lowering(_expand_last_backward, is_possible=_has_lengths),
}
