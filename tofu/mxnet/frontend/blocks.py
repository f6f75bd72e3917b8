"""Compute cumsum, argmax, topk and similar operators in blocks, so that their dimension can be split.

Example: argmax over the 8 rows of an (8, 5) array on 2 workers. Reshape it to (2, 4, 5), find the argmax in each block
of 4 rows, then compare the blocks. A roll is replaced by slices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import mxnet as mx

from tdl_ops.mxnet.attributes import parse_attribute
from tofu.mxnet.frontend.inference import Shapes
from tofu.mxnet.frontend.splice import Operand, rewrite_operators

EXTREMES = {"argmax": "max", "argmin": "min", "argmax_channel": "max", "_npi_argmax": "max", "_npi_argmin": "min"}
"""Operator that returns the position of an extremum -> operator that returns the extremum."""
BLOCKED = ("_np_cumsum", "topk", *EXTREMES)
ROLL = "_np_roll"
MOST_POSITIONS = {"float16": 1 << 11, "float32": 1 << 24, "float64": 1 << 53, "uint8": 1 << 8, "int8": 1 << 7}
MOST_POSITIONS |= {"int32": 1 << 31, "int64": 1 << 63}
"""For each type, the largest number of elements whose positions it represents exactly."""


def has_blocks(symbol: Any) -> bool:
    """Return True if the model has an operator that can be computed in blocks, such as cumsum."""
    text = symbol.tojson()
    return any(f'"op": "{op}"' in text for op in (*BLOCKED, ROLL))


def name_blocks(name: str) -> str:
    """Return the name of the operator that divides an input into blocks: "x_reshape0" for operator "x"."""
    return f"{name}_reshape0"


def divide_into_blocks(
    symbol: Any, shapes: Shapes, types: Mapping[str, int], workers: int, may_divide: Callable[[str], bool]
) -> Any:
    """Return a copy of the model that computes operators such as cumsum in blocks.

    `shapes` and `types` describe all variables. Operators with `may_divide(name) == False` stay unchanged.
    """

    def find_replacement(node: Mapping[str, Any], operands: Sequence[Operand], shape: tuple[int, ...]) -> Any:
        if not may_divide(node["name"]):
            return None
        with mx.name.Prefix(f"{node['name']}_"):
            if node["op"] == ROLL:
                return _replace_roll(node, shape)
            blocked = _BlockedOperator.read(node, operands[0], shape, workers)
            return None if blocked is None else blocked.build(mx.sym.Variable("0"))

    replacements = dict.fromkeys((*BLOCKED, ROLL), find_replacement)
    return rewrite_operators(symbol, shapes, types, replacements, keeps_names=True)


def _replace_roll(node: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    axes, shifts = (parse_attribute(node["attrs"].get(name), ()) or () for name in ("axis", "shift"))
    operand_shape = shape if axes else (prod(shape),)
    shifts = shifts * max(len(axes), 1) if len(shifts) == 1 else shifts
    pairs = zip(axes or (0,), shifts, strict=True)
    rolls = [
        (axis % len(operand_shape), shift % operand_shape[axis]) for axis, shift in pairs if shift % operand_shape[axis]
    ]
    if not rolls:
        return None
    result = mx.sym.reshape(mx.sym.Variable("0"), shape=operand_shape)
    for axis, shift in rolls:
        begin = operand_shape[axis] - shift
        slices = [mx.sym.slice_axis(result, axis=axis, begin=b, end=e) for b, e in ((begin, None), (0, begin))]
        result = mx.sym.concat(*slices, dim=axis)
    return mx.sym.reshape(result, shape=shape)


@dataclass(frozen=True)
class _BlockedOperator:
    op: str
    attributes: Mapping[str, Any]
    shape: tuple[int, ...]
    dtype: str
    axis: int
    blocks: int
    result_shape: tuple[int, ...]

    @classmethod
    def read(
        cls, node: Mapping[str, Any], operand: Operand, result_shape: tuple[int, ...], workers: int
    ) -> _BlockedOperator | None:
        op, (shape, dtype) = node["op"], operand
        attributes = {name: parse_attribute(text) for name, text in node.get("attrs", {}).items()}
        axis = attributes.get("axis", {"topk": -1, "argmax_channel": 1}.get(op))
        shape, axis = ((prod(shape),), 0) if axis is None else (shape, axis % len(shape))
        blocked = cls(op, attributes, shape, dtype, axis, gcd(shape[axis], workers), result_shape)
        return blocked if dtype in MOST_POSITIONS and result_shape and blocked._is_useful() else None

    @property
    def block_size(self) -> int:
        return self.shape[self.axis] // self.blocks

    def _is_useful(self) -> bool:
        extent, count, position_type = self.shape[self.axis], 1, self.dtype
        if self.op == "topk":
            count, position_type = self.attributes.get("k", 1), self.attributes.get("dtype", "float32")
            count = count if count > 0 else extent
            returned = self.attributes.get("ret_typ", "indices")
            if returned == "mask" or (returned != "value" and count * count * self.blocks > extent):
                return False
        if self.op == "_np_cumsum" and self.dtype == "float16":
            return False  # sums of blocks may overflow although the sum of all does not
        # NumPy's argmax and argmin return int64.
        has_positions = self.op in ("argmax", "argmin", "argmax_channel", "topk")
        is_represented = not has_positions or extent <= MOST_POSITIONS[position_type]
        return self.blocks > 1 and self.block_size >= 2 * count and is_represented

    def build(self, operand: Any) -> Any:
        divided = mx.sym.reshape(operand, shape=self._replace_extent(self.blocks, self.block_size))
        if self.op == "topk":
            return self._find_largest(divided)
        if self.op in EXTREMES:
            return self._find_extreme(divided)
        return self._accumulate(divided)

    def _replace_extent(self, *extents: int) -> tuple[int, ...]:
        return (*self.shape[: self.axis], *extents, *self.shape[self.axis + 1 :])

    def _accumulate(self, divided: Any) -> Any:
        axis, dtype = self.axis, self.attributes.get("dtype")
        sums_in_block = mx.sym.cumsum(divided, axis=axis + 1, **({"dtype": dtype} if dtype else {}))
        totals = mx.sym.slice_axis(sums_in_block, axis=axis + 1, begin=self.block_size - 1, end=self.block_size)
        sums_of_blocks = mx.sym.slice_axis(mx.sym.cumsum(totals, axis=axis), axis=axis, begin=0, end=self.blocks - 1)
        zeros = mx.sym.zeros(self._replace_extent(1, 1), dtype=dtype or self.dtype)
        negative_zeros = mx.sym.negative(zeros)  # -0.0 + 0.0 would be 0.0
        sums_before = mx.sym.concat(negative_zeros, sums_of_blocks, dim=axis)
        return mx.sym.reshape(mx.sym.broadcast_add(sums_in_block, sums_before), shape=self.shape)

    def _find_extreme(self, divided: Any) -> Any:
        extremes = getattr(mx.sym, EXTREMES[self.op])(divided, axis=self.axis + 1)
        positions_in_block = self._find_position(divided, self.axis + 1)
        block = mx.sym.reshape(self._find_position(extremes, self.axis), shape=self._replace_extent(1))
        position = mx.sym.pick(positions_in_block, block, axis=self.axis, keepdims=True) + block * self.block_size
        return mx.sym.BlockGrad(mx.sym.reshape(position, shape=self.result_shape))

    def _find_position(self, data: Any, axis: int) -> Any:
        if self.op.startswith("_npi_"):
            return getattr(mx.sym.np, self.op[len("_npi_") :])(data.as_np_ndarray(), axis=axis).as_nd_ndarray()
        return getattr(mx.sym, self.op.removesuffix("_channel"))(data, axis=axis)

    def _find_largest(self, divided: Any) -> Any:
        count, returned = self.attributes.get("k", 1), self.attributes.get("ret_typ", "indices")
        dtype = "float32" if self.shape[self.axis] <= MOST_POSITIONS["float32"] else "float64"
        options = {"k": count, "is_ascend": self.attributes.get("is_ascend", False), "dtype": dtype}
        candidate_shape = self._replace_extent(self.blocks * count)
        largest_in_block = mx.sym.topk(divided, axis=self.axis + 1, ret_typ="both", **options)
        candidates = mx.sym.reshape(largest_in_block[0], shape=candidate_shape)
        if returned == "value":
            return mx.sym.topk(candidates, axis=self.axis, ret_typ="value", **options)
        largest = mx.sym.topk(candidates, axis=self.axis, ret_typ="both", **options)
        chosen, positions = mx.sym.BlockGrad(largest[1]), mx.sym.BlockGrad(largest_in_block[1])
        positions_in_block = mx.sym.reshape(positions, shape=candidate_shape)
        chosen_positions = self._look_up(positions_in_block, chosen, count, dtype)
        position = chosen_positions + mx.sym.floor(chosen / count) * self.block_size
        position = mx.sym.cast(position, dtype=self.attributes.get("dtype", "float32"))
        return position if returned == "indices" else mx.sym.Group([largest[0], position])

    def _look_up(self, positions: Any, chosen: Any, count: int, dtype: str) -> Any:
        if count == 1:
            return mx.sym.pick(positions, chosen, axis=self.axis, keepdims=True)
        candidates = self.blocks * count
        number_shape = (*(1,) * (self.axis + 1), candidates, *(1,) * (len(self.shape) - self.axis - 1))
        numbers = mx.sym.reshape(mx.sym.arange(candidates, dtype=dtype), shape=number_shape)
        is_chosen = mx.sym.broadcast_equal(mx.sym.expand_dims(chosen, axis=self.axis + 1), numbers)
        chosen_positions = mx.sym.broadcast_mul(is_chosen, mx.sym.expand_dims(positions, axis=self.axis))
        return mx.sym.sum(chosen_positions, axis=self.axis + 1)
