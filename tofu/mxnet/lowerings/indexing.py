"""Lowerings of Embedding, take, pick, one_hot, SequenceMask and SequenceLast, to split the dimension that indices refer to.

Each worker handles the indices that fall into its shard and computes zeros for all others, so the sum over the workers
is exact. In a gradient each worker computes the rows of its shard. The parts are in `csrc/nnvm/parts/take.cc` and
`by_position.cc`, and `tdl_ops/mxnet/take_parts.py` and `position_parts.py` describe them.
"""

from __future__ import annotations

from tofu.graph import Operator
from tofu.lowering.parts import Attributes, Inputs, Lowering, Parts
from tofu.mxnet.lowerings.composition import round_single
from tofu.mxnet.lowerings.conventions import TYPES, is_true, positive_axis, select_attributes


def _lower_lookup(op: str, table: int, indices: int) -> dict[str, Lowering]:

    def is_possible(operator: Operator, inputs: Inputs) -> bool:
        values = 0 if operator.op.startswith("_backward") else table
        return inputs[values].dtype in TYPES

    def expand_forward(parts: Parts) -> None:
        attributes = _take_attributes(parts, parts.shape(table), len(parts.shape(indices)))
        raises = parts.whole.attributes.get("mode") == "raise"
        rows = _check_indices(parts, indices, attributes) if raises else parts.whole.inputs[indices]
        parts.last_operator("_tofu_take", attributes, (parts.whole.inputs[table], rows))

    def expand_backward(parts: Parts) -> None:
        attributes = _take_attributes(parts, parts.output_shape(table), len(parts.shape(1)))
        extent = {"extent": attributes["rows"]}
        gradient = (parts.whole.outputs[table],)
        parts.last_operator("_tofu_take_backward", attributes | extent, parts.whole.inputs, outputs=gradient)

    return {
        op: Lowering(expand_forward, is_possible=is_possible),
        f"_backward_{op}": Lowering(expand_backward, is_possible=is_possible),
    }


def _check_indices(parts: Parts, slot: int, attributes: Attributes) -> int:
    """Return the indices after a check that they are in range, for mode="raise".

    Each worker looks all indices up in a table of zeros by MXNet's own kernel, which raises the error, and adds the
    result. So the error reaches all that read the indices.
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


def _take_attributes(parts: Parts, table: tuple[int, ...], rank: int) -> dict[str, str]:
    own = parts.whole.attributes
    axis = positive_axis(own, len(table), 0)
    inside = [f"i{d}" for d in range(rank)]
    after = ["e"] if "Embedding" in parts.whole.op else [f"z{d}" for d in range(len(table) - axis - 1)]
    return {
        "axis": str(axis),
        "rows": str(table[axis]),
        "mode": own.get("mode", "clip").replace("raise", "wrap"),  # _check_indices raises
        "names": " ".join([*(f"a{d}" for d in range(axis)), *inside, *after]),
    }


def _is_clear(operator: Operator, inputs: Inputs) -> bool:
    return inputs[0].dtype in TYPES and operator.attributes.get("axis", "-1") != "None"


def _pick_attributes(parts: Parts, data: tuple[int, ...]) -> dict[str, str]:
    own = parts.whole.attributes
    axis = positive_axis(own, len(data), -1)
    keepdims = str(is_true(own, "keepdims", False))
    return {"axis": str(axis), "rows": str(data[axis]), "mode": own.get("mode", "clip"), "keepdims": keepdims}


def _expand_pick(parts: Parts) -> None:
    parts.last_operator("_tofu_pick", _pick_attributes(parts, parts.shape(0)), parts.whole.inputs)


def _expand_pick_backward(parts: Parts) -> None:
    attributes = _pick_attributes(parts, parts.output_shape(0))
    extent = {"extent": attributes["rows"]}
    parts.last_operator("_tofu_pick_backward", attributes | extent, parts.whole.inputs)


EXACT = {"float16": 1 << 11, "float32": 1 << 24, "float64": 1 << 53}
"""Largest depth up to which a type represents every position exactly."""


def _is_exact(operator: Operator, inputs: Inputs) -> bool:
    return int(operator.attributes["depth"]) <= EXACT.get(_one_hot_type(operator), 0)


def _one_hot_type(operator: Operator) -> str:
    return str(operator.attributes.get("dtype", "float32"))


def _expand_one_hot(parts: Parts) -> None:
    own = parts.whole.attributes
    attributes = select_attributes(own, "on_value", "off_value")
    inputs = (_convert_indices(parts, _one_hot_type(parts.whole)),)
    parts.last_operator("_tofu_one_hot", attributes | {"extent": own["depth"], "mode": "exact"}, inputs)


def _convert_indices(parts: Parts, dtype: str) -> int:
    """Return the indices in the type of the result.

    Fractions, which have no effect, are cut off before a cast could round them. Of an int64 index, MXNet's kernel uses
    the lower 32 bits.
    """
    (indices,) = parts.whole.inputs
    given, shape = parts.graph_tensors[indices].dtype, parts.shape(0)
    steps = [] if given == dtype else [("Cast", {"dtype": dtype}, dtype)]
    if steps and given in TYPES:
        steps.insert(0, ("trunc", {}, given))
    elif given == "int64":
        steps.insert(0, ("Cast", {"dtype": "int32"}, "int32"))
    names = (tuple(f"i{d}" for d in range(len(shape))),) * 2
    for op, attributes, made_of in steps:
        name = f"{op.lower()}_{made_of}"
        made = parts.inner_tensor(name, shape, made_of)
        parts.inner_operator(name, op, attributes, (indices,), (made,), names=names)
        indices = made
    return indices


def _has_lengths(operator: Operator, inputs: Inputs) -> bool:
    return len(inputs) == 2 and inputs[0].dtype in TYPES


def _expand_mask(parts: Parts) -> None:
    own = parts.whole.attributes
    value = str(round_single(own.get("value", "0")))
    parts.last_operator("_tofu_sequence_mask", _time_attributes(own) | {"off_value": value}, parts.whole.inputs)


def _expand_mask_backward(parts: Parts) -> None:
    parts.last_operator(
        "_tofu_sequence_mask",
        _time_attributes(parts.whole.attributes),
        parts.whole.inputs,
        outputs=parts.whole.outputs[:1],
    )


def _expand_last(parts: Parts) -> None:
    parts.last_operator("_tofu_pick", pick_by_lengths(parts.whole.attributes, parts.shape(0)), parts.whole.inputs)


def _expand_last_backward(parts: Parts) -> None:
    attributes = pick_by_lengths(parts.whole.attributes, parts.output_shape(0))
    extent = {"extent": attributes["rows"]}
    gradient = parts.whole.outputs[:1]
    parts.last_operator("_tofu_pick_backward", attributes | extent, parts.whole.inputs, outputs=gradient)


def _time_attributes(attributes: Attributes) -> dict[str, str]:
    return {"axis": str(positive_axis(attributes, 2, 0)), "mode": "length"}


def pick_by_lengths(attributes: Attributes, data: tuple[int, ...]) -> dict[str, str]:
    """Return the attributes of a pick by lengths. Its index variables have the names of the stock operator's."""
    time = _time_attributes(attributes)
    names = ["b", *(f"i{d}" for d in range(len(data) - 2))]
    return {**time, "rows": str(data[int(time["axis"])]), "names": " ".join(names)}


LOWERINGS = {
    **_lower_lookup("Embedding", table=1, indices=0),
    **_lower_lookup("take", table=0, indices=1),
    "pick": Lowering(_expand_pick, is_possible=_is_clear),
    "_backward_pick": Lowering(_expand_pick_backward, is_possible=_is_clear),
    "one_hot": Lowering(_expand_one_hot, is_possible=_is_exact),
    "SequenceMask": Lowering(_expand_mask, is_possible=_has_lengths),
    "_backward_SequenceMask": Lowering(_expand_mask_backward, is_possible=_has_lengths),
    "SequenceLast": Lowering(_expand_last, is_possible=_has_lengths),
    "_backward_SequenceLast": Lowering(_expand_last_backward, is_possible=_has_lengths),
}
