"""Replace Embedding, take and similar operators, so that the indexed dimension can be split.

Each worker looks up the rows in its shard of the table, and returns zeros for all other rows. Then the workers add
their results, which is exact. For the gradient, each worker computes the rows of its shard.
"""

from __future__ import annotations

from collections.abc import Callable

from tdl_ops.mxnet.attributes import is_true
from tofu.graph import Operator
from tofu.lowering.parts import Attributes, Inputs, Lowering, Parts
from tofu.mxnet.lowerings.composition import round_single
from tofu.mxnet.lowerings.conventions import TYPES, positive_axis, select_attributes


def _lower_lookup(op: str, table_slot: int, indices_slot: int) -> dict[str, Lowering]:
    def is_possible(operator: Operator, inputs: Inputs) -> bool:
        value_slot = 0 if operator.op.startswith("_backward") else table_slot
        return inputs[value_slot].dtype in TYPES

    def expand_forward(parts: Parts) -> None:
        attributes = _take_attributes(parts, parts.shape(table_slot), len(parts.shape(indices_slot)))
        indices, axis = parts.whole.inputs[indices_slot], int(attributes["axis"])
        if parts.whole.attributes.get("mode") == "raise":
            index_names = tuple(attributes["names"].split()[axis : axis + len(parts.shape(indices_slot))])
            indices = _check_indices(parts, "take", indices_slot, indices, index_names, int(attributes["rows"]))
        parts.last_operator("_tofu_take", attributes, (parts.whole.inputs[table_slot], indices))

    def expand_backward(parts: Parts) -> None:
        attributes = _take_attributes(parts, parts.output_shape(table_slot), len(parts.shape(1)))
        extent = {"extent": attributes["rows"]}
        gradient = (parts.whole.outputs[table_slot],)
        parts.last_operator("_tofu_take_backward", attributes | extent, parts.whole.inputs, outputs=gradient)

    return {
        op: Lowering(expand_forward, is_possible=is_possible),
        f"_backward_{op}": Lowering(expand_backward, is_possible=is_possible),
    }


def _check_indices(parts: Parts, op: str, slot: int, indices: int, names: tuple[str, ...], rows: int) -> int:
    # MXNet's kernel looks up the indices in a table of zeros, and raises an error for a wrong index. Adding the zeros
    # makes other operators wait for this check.
    dtype = parts.graph_tensors[parts.whole.inputs[slot]].dtype
    shape = parts.shape(slot)[len(parts.shape(slot)) - len(names) :]
    zeros = parts.inner_tensor("zeros", (rows,), dtype)
    parts.inner_operator("zeros", "_zeros", {"shape": str((rows,)), "dtype": dtype}, (), (zeros,), names=(("",),))
    looked_up, checked = (parts.inner_tensor(name, shape, dtype) for name in ("found", "checked"))
    is_gather = op == "gather_nd"
    attributes, input_names = ({}, ("", *names)) if is_gather else ({"axis": "0", "mode": "raise"}, names)
    inputs = (zeros, parts.whole.inputs[slot])
    parts.inner_operator("found", op, attributes, inputs, (looked_up,), names=(("",), input_names, names))
    parts.inner_operator("checked", "elemwise_add", {}, (indices, looked_up), (checked,), names=(names,) * 3)
    return checked


def _take_attributes(parts: Parts, table_shape: tuple[int, ...], index_rank: int) -> dict[str, str]:
    attributes = parts.whole.attributes
    axis = positive_axis(attributes, len(table_shape), 0)
    names_before = [f"a{d}" for d in range(axis)]
    index_names = [f"i{d}" for d in range(index_rank)]
    is_embedding = "Embedding" in parts.whole.op
    names_after = ["e"] if is_embedding else [f"z{d}" for d in range(len(table_shape) - axis - 1)]
    return {
        "axis": str(axis),
        "rows": str(table_shape[axis]),
        "mode": attributes.get("mode", "clip").replace("raise", "wrap"),  # _check_indices raises
        "names": " ".join([*names_before, *index_names, *names_after]),
    }


def _has_axis(operator: Operator, inputs: Inputs) -> bool:
    return inputs[0].dtype in TYPES and operator.attributes.get("axis", "-1") != "None"


def _pick_attributes(attributes: Attributes, shape: tuple[int, ...]) -> dict[str, str]:
    axis = positive_axis(attributes, len(shape), -1)
    keepdims = str(is_true(attributes, "keepdims"))
    mode = attributes.get("mode", "clip")
    return {"axis": str(axis), "rows": str(shape[axis]), "mode": mode, "keepdims": keepdims}


def _lower_pick(
    op: str,
    find_attributes: Callable[[Attributes, tuple[int, ...]], dict[str, str]],
    is_possible: Callable[[Operator, Inputs], bool],
) -> dict[str, Lowering]:
    def expand_forward(parts: Parts) -> None:
        attributes = find_attributes(parts.whole.attributes, parts.shape(0))
        parts.last_operator("_tofu_pick", attributes, parts.whole.inputs)

    def expand_backward(parts: Parts) -> None:
        attributes = find_attributes(parts.whole.attributes, parts.output_shape(0))
        extent, gradient = {"extent": attributes["rows"]}, parts.whole.outputs[:1]
        parts.last_operator("_tofu_pick_backward", attributes | extent, parts.whole.inputs, outputs=gradient)

    return {
        op: Lowering(expand_forward, is_possible=is_possible),
        f"_backward_{op}": Lowering(expand_backward, is_possible=is_possible),
    }


def _expand_batch_take(parts: Parts) -> None:
    attributes = {"axis": "1", "rows": str(parts.shape(0)[1]), "mode": "clip", "names": "b"}
    parts.last_operator("_tofu_pick", attributes, parts.whole.inputs)


def _reads_rows(operator: Operator, inputs: Inputs) -> bool:
    return inputs[0].dtype in TYPES and inputs[1].shape[0] == 1 and len(inputs[1].shape) > 1


def _expand_gather(parts: Parts) -> None:
    names, (rows, *_) = _name_rows(parts), parts.shape(0)
    indices = _check_indices(parts, "gather_nd", 1, _read_rows(parts), names, rows)
    attributes = _gather_attributes(rows, len(names) + len(parts.shape(0)) - 1)
    parts.last_operator("_tofu_take", attributes, (parts.whole.inputs[0], indices))


def _expand_gather_backward(parts: Parts) -> None:
    (rows, *_), indices = parts.output_shape(0), _read_rows(parts)
    attributes = _gather_attributes(rows, len(parts.shape(0))) | {"extent": str(rows)}
    parts.last_operator("_tofu_take_backward", attributes, (parts.whole.inputs[0], indices))


def _gather_attributes(rows: int, rank: int) -> dict[str, str]:
    return {"axis": "0", "rows": str(rows), "mode": "wrap", "names": " ".join(f"i{d}" for d in range(rank))}


def _name_rows(parts: Parts) -> tuple[str, ...]:
    return tuple(f"i{d}" for d in range(len(parts.shape(1)) - 1))


def _read_rows(parts: Parts) -> int:
    indices, shape, names = parts.whole.inputs[1], parts.shape(1)[1:], _name_rows(parts)
    rows = parts.inner_tensor("rows", shape, parts.graph_tensors[indices].dtype)
    parts.inner_operator("rows", "Reshape", {"shape": str(shape)}, (indices,), (rows,), names=(("", *names), names))
    return rows


MOST_EXACT_DEPTH = {"float16": 1 << 11, "float32": 1 << 24, "float64": 1 << 53}
"""For each type, the largest depth for which it represents all positions exactly."""


def _is_exact(operator: Operator, inputs: Inputs) -> bool:
    return int(operator.attributes["depth"]) <= MOST_EXACT_DEPTH.get(_one_hot_type(operator), 0)


def _one_hot_type(operator: Operator) -> str:
    return str(operator.attributes.get("dtype", "float32"))


def _expand_one_hot(parts: Parts) -> None:
    attributes = select_attributes(parts.whole.attributes, "on_value", "off_value")
    attributes |= {"extent": parts.whole.attributes["depth"], "mode": "exact"}
    parts.last_operator("_tofu_one_hot", attributes, (_convert_indices(parts, _one_hot_type(parts.whole)),))


def _convert_indices(parts: Parts, dtype: str) -> int:
    (indices,) = parts.whole.inputs
    index_type, shape = parts.graph_tensors[indices].dtype, parts.shape(0)
    conversions = [] if index_type == dtype else [("Cast", {"dtype": dtype}, dtype)]
    if conversions and index_type in TYPES:
        conversions.insert(0, ("trunc", {}, index_type))
    elif index_type == "int64":
        conversions.insert(0, ("Cast", {"dtype": "int32"}, "int32"))
    names = (tuple(f"i{d}" for d in range(len(shape))),) * 2
    for op, attributes, output_type in conversions:
        name = f"{op.lower()}_{output_type}"
        converted = parts.inner_tensor(name, shape, output_type)
        parts.inner_operator(name, op, attributes, (indices,), (converted,), names=names)
        indices = converted
    return indices


def _has_lengths(operator: Operator, inputs: Inputs) -> bool:
    return len(inputs) == 2 and inputs[0].dtype in TYPES


def _expand_mask(parts: Parts) -> None:
    value = str(round_single(parts.whole.attributes.get("value", "0")))
    attributes = _time_attributes(parts.whole.attributes) | {"off_value": value}
    parts.last_operator("_tofu_sequence_mask", attributes, parts.whole.inputs)


def _expand_mask_backward(parts: Parts) -> None:
    attributes, gradient = _time_attributes(parts.whole.attributes), parts.whole.outputs[:1]
    parts.last_operator("_tofu_sequence_mask", attributes, parts.whole.inputs, outputs=gradient)


def _time_attributes(attributes: Attributes) -> dict[str, str]:
    return {"axis": str(positive_axis(attributes, 2, 0)), "mode": "length"}


def pick_by_lengths(attributes: Attributes, shape: tuple[int, ...]) -> dict[str, str]:
    """Return the attributes of an operator that picks the last step of each sequence."""
    time = _time_attributes(attributes)
    names = ["b", *(f"i{d}" for d in range(len(shape) - 2))]
    return {**time, "rows": str(shape[int(time["axis"])]), "names": " ".join(names)}


LOWERINGS = {
    **_lower_lookup("Embedding", table_slot=1, indices_slot=0),
    **_lower_lookup("take", table_slot=0, indices_slot=1),
    "batch_take": Lowering(_expand_batch_take, is_possible=lambda operator, inputs: inputs[0].dtype in TYPES),
    "gather_nd": Lowering(_expand_gather, is_possible=_reads_rows),
    "_backward_gather_nd": Lowering(_expand_gather_backward, is_possible=_reads_rows),
    **_lower_pick("pick", _pick_attributes, _has_axis),
    "one_hot": Lowering(_expand_one_hot, is_possible=_is_exact),
    "SequenceMask": Lowering(_expand_mask, is_possible=_has_lengths),
    "_backward_SequenceMask": Lowering(_expand_mask_backward, is_possible=_has_lengths),
    **_lower_pick("SequenceLast", pick_by_lengths, _has_lengths),
}
