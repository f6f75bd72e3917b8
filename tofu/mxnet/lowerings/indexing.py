"""Lowerings of Embedding, take, pick, gather_nd, one_hot, SequenceMask and SequenceLast, to split the indexed dimension.

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
        rows, axis = parts.whole.inputs[indices], int(attributes["axis"])
        if parts.whole.attributes.get("mode") == "raise":
            named = tuple(attributes["names"].split()[axis : axis + len(parts.shape(indices))])
            rows = _check_indices(parts, "take", indices, rows, named, int(attributes["rows"]))
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


def _check_indices(parts: Parts, op: str, slot: int, indices: int, names: tuple[str, ...], rows: int) -> int:
    """Return the `indices` after a check that they are in range.

    Each worker looks the operator's input `slot` up in a table of zeros by MXNet's own kernel, which raises the error,
    and adds the result to the indices. So the error reaches all that read the indices.
    """
    given = parts.graph_tensors[parts.whole.inputs[slot]]
    shape, is_gather = parts.shape(slot)[len(parts.shape(slot)) - len(names) :], op == "gather_nd"
    zeros = parts.inner_tensor("zeros", (rows,), given.dtype)
    made = {"shape": str((rows,)), "dtype": given.dtype}
    parts.inner_operator("zeros", "_zeros", made, (), (zeros,), names=(("",),))
    found, checked = (parts.inner_tensor(name, shape, given.dtype) for name in ("found", "checked"))
    looked_up = (zeros, parts.whole.inputs[slot])
    attributes, read = ({}, ("", *names)) if is_gather else ({"axis": "0", "mode": "raise"}, names)
    parts.inner_operator("found", op, attributes, looked_up, (found,), names=(("",), read, names))
    parts.inner_operator("checked", "elemwise_add", {}, (indices, found), (checked,), names=(names,) * 3)
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


def _expand_batch_take(parts: Parts) -> None:
    attributes = {"axis": "1", "rows": str(parts.shape(0)[1]), "mode": "clip", "names": "b"}
    parts.last_operator("_tofu_pick", attributes, parts.whole.inputs)


def _reads_rows(operator: Operator, inputs: Inputs) -> bool:
    """Return True if indices refer to the first dimension alone."""
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
    """Return the attributes of a lookup of rows. Negative indices count from the end."""
    return {"axis": "0", "rows": str(rows), "mode": "wrap", "names": " ".join(f"i{d}" for d in range(rank))}


def _name_rows(parts: Parts) -> tuple[str, ...]:
    return tuple(f"i{d}" for d in range(len(parts.shape(1)) - 1))


def _read_rows(parts: Parts) -> int:
    """Return the indices without their first dimension, whose extent is 1."""
    indices, shape, names = parts.whole.inputs[1], parts.shape(1)[1:], _name_rows(parts)
    rows = parts.inner_tensor("rows", shape, parts.graph_tensors[indices].dtype)
    parts.inner_operator("rows", "Reshape", {"shape": str(shape)}, (indices,), (rows,), names=(("", *names), names))
    return rows


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
    "batch_take": Lowering(_expand_batch_take, is_possible=lambda operator, inputs: inputs[0].dtype in TYPES),
    "gather_nd": Lowering(_expand_gather, is_possible=_reads_rows),
    "_backward_gather_nd": Lowering(_expand_gather_backward, is_possible=_reads_rows),
    "pick": Lowering(_expand_pick, is_possible=_is_clear),
    "_backward_pick": Lowering(_expand_pick_backward, is_possible=_is_clear),
    "one_hot": Lowering(_expand_one_hot, is_possible=_is_exact),
    "SequenceMask": Lowering(_expand_mask, is_possible=_has_lengths),
    "_backward_SequenceMask": Lowering(_expand_mask_backward, is_possible=_has_lengths),
    "SequenceLast": Lowering(_expand_last, is_possible=_has_lengths),
    "_backward_SequenceLast": Lowering(_expand_last_backward, is_possible=_has_lengths),
}
