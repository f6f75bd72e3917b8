"""MXNet's operators along a dimension, such as cumsum, argmax and topk, in as many blocks as there are workers.

Each worker computes its own block, and workers exchange one partial result of each block. A roll becomes slices, of which
workers exchange the elements that they lack.
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
"""Operators that find the position of an extreme, and the operator that returns the extreme."""
BLOCKED = ("_np_cumsum", "topk", *EXTREMES)
ROLL = "_np_roll"
POSITIONS = {"float16": 1 << 11, "float32": 1 << 24, "float64": 1 << 53, "uint8": 1 << 8, "int8": 1 << 7}
POSITIONS |= {"int32": 1 << 31, "int64": 1 << 63}
"""Number of elements up to which a type represents every position."""


def has_blocks(symbol: Any) -> bool:
    """Return True if there is an operator that may be computed in blocks."""
    text = symbol.tojson()
    return any(f'"op": "{op}"' in text for op in (*BLOCKED, ROLL))


def name_blocks(name: str) -> str:
    """Return the name of the operator that divides the operand, for the name of an operator in blocks."""
    return f"{name}_reshape0"


def divide_into_blocks(
    symbol: Any, shapes: Shapes, types: Mapping[str, int], workers: int, divides: Callable[[str], bool]
) -> Any:
    """Return the symbol with operators along a dimension in blocks. `shapes` and `types` describe all variables.

    Operators whose names `divides` refuses stay whole. The last operator of the blocks has the name of the
    operator, unless that has two outputs.
    """

    def find(node: Mapping[str, Any], operands: Sequence[Operand], shape: tuple[int, ...]) -> Any:
        if not divides(node["name"]):
            return None
        with mx.name.Prefix(f"{node['name']}_"):
            if node["op"] == ROLL:
                return _slice(node, shape)
            blocked = _Blocked.read(node, operands[0], shape, workers)
            return None if blocked is None else blocked.build(mx.sym.Variable("0"))

    return rewrite_operators(symbol, shapes, types, dict.fromkeys((*BLOCKED, ROLL), find), keeps_names=True)


def _read_attributes(node: Mapping[str, Any]) -> dict[str, Any]:
    return {name: parse_attribute(text) for name, text in node.get("attrs", {}).items()}


def _slice(node: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    """Return a roll as slices in another order, or None if nothing moves. Without an axis, the operand is flat."""
    attributes = _read_attributes(node)
    axes, shifts = (_as_tuple(attributes.get(name)) for name in ("axis", "shift"))
    rolled = shape if axes else (prod(shape),)
    shifts = shifts * max(len(axes), 1) if len(shifts) == 1 else shifts
    pairs = zip(axes or (0,), shifts, strict=True)
    moves = [(axis % len(rolled), shift % rolled[axis]) for axis, shift in pairs if shift % rolled[axis]]
    if not moves:
        return None
    result = mx.sym.reshape(mx.sym.Variable("0"), shape=rolled)
    for axis, shift in moves:
        begin = rolled[axis] - shift
        ends = [mx.sym.slice_axis(result, axis=axis, begin=b, end=e) for b, e in ((begin, None), (0, begin))]
        result = mx.sym.concat(*ends, dim=axis)
    return mx.sym.reshape(result, shape=shape)


def _as_tuple(given: Any) -> tuple[int, ...]:
    return () if given is None else (given,) if isinstance(given, int) else tuple(given)


@dataclass(frozen=True)
class _Blocked:
    """Operator in blocks along dimension `axis` of an operand, which is flat if the operator has no axis.

    `result` is the shape of the operator's first output.
    """

    op: str
    attributes: Mapping[str, Any]
    shape: tuple[int, ...]
    dtype: str
    axis: int
    blocks: int
    result: tuple[int, ...]

    @classmethod
    def read(cls, node: Mapping[str, Any], operand: Operand, result: tuple[int, ...], workers: int) -> _Blocked | None:
        """Return an operator in blocks, or None if it has no such form, or gains nothing by it."""
        op, (shape, dtype) = node["op"], operand
        attributes = _read_attributes(node)
        axis = attributes.get("axis", {"topk": -1, "argmax_channel": 1}.get(op))
        shape, axis = ((prod(shape),), 0) if axis is None else (shape, axis % len(shape))
        blocked = cls(op, attributes, shape, dtype, axis, gcd(shape[axis], workers), result)
        return blocked if dtype in POSITIONS and result and blocked._gains() else None

    @property
    def size(self) -> int:
        """Elements of a block."""
        return self.shape[self.axis] // self.blocks

    def _gains(self) -> bool:
        """Return True if a block has more elements than are exchanged, and the result represents every position."""
        extent, count, position = self.shape[self.axis], 1, self.dtype
        if self.op == "topk":
            count, position = self.attributes.get("k", 1) or extent, self.attributes.get("dtype", "float32")
            kind = self.attributes.get("ret_typ", "indices")
            if kind == "mask" or (kind != "value" and count * count * self.blocks > extent):
                return False
        if self.op == "_np_cumsum" and self.dtype == "float16":
            return False  # sums of blocks may overflow in both directions where a sum of all elements does not
        # NumPy's argmax and argmin return int64, which represents every position.
        has_positions = self.op in ("argmax", "argmin", "argmax_channel", "topk")
        is_represented = not has_positions or extent <= POSITIONS[position]
        return self.blocks > 1 and self.size >= 2 * count and is_represented

    def build(self, data: Any) -> Any:
        """Return the operator's results as a symbol over its operand."""
        apart = mx.sym.reshape(data, shape=self._put(self.blocks, self.size))
        if self.op == "topk":
            return self._find_largest(apart)
        if self.op in EXTREMES:
            return self._find_extreme(apart)
        return self._accumulate(apart)

    def _put(self, *extents: int) -> tuple[int, ...]:
        """Return the operand's shape with other extents in place of that of the dimension."""
        return (*self.shape[: self.axis], *extents, *self.shape[self.axis + 1 :])

    def _accumulate(self, apart: Any) -> Any:
        """Accumulate within blocks, and add to each element the sum of the blocks before it."""
        dtype = self.attributes.get("dtype")
        own = mx.sym.cumsum(apart, axis=self.axis + 1, **({"dtype": dtype} if dtype else {}))
        totals = mx.sym.slice_axis(own, axis=self.axis + 1, begin=self.size - 1, end=self.size)
        sums = mx.sym.slice_axis(mx.sym.cumsum(totals, axis=self.axis), axis=self.axis, begin=0, end=self.blocks - 1)
        none = mx.sym.negative(mx.sym.zeros(self._put(1, 1), dtype=dtype or self.dtype))  # -0.0 + 0.0 would be 0.0
        before = mx.sym.concat(none, sums, dim=self.axis)
        return mx.sym.reshape(mx.sym.broadcast_add(own, before), shape=self.shape)

    def _find_extreme(self, apart: Any) -> Any:
        """Find the extreme of each block, and the first block whose extreme is that of all. NaN is an extreme."""
        extremes = getattr(mx.sym, EXTREMES[self.op])(apart, axis=self.axis + 1)
        first = self._find_position(apart, self.axis + 1)
        best = mx.sym.reshape(self._find_position(extremes, self.axis), shape=self._put(1))
        position = mx.sym.pick(first, best, axis=self.axis, keepdims=True) + best * self.size
        return mx.sym.BlockGrad(mx.sym.reshape(position, shape=self.result))

    def _find_position(self, x: Any, axis: int) -> Any:
        if self.op.startswith("_npi_"):
            return getattr(mx.sym.np, self.op[len("_npi_") :])(x.as_np_ndarray(), axis=axis).as_nd_ndarray()
        return getattr(mx.sym, self.op.removesuffix("_channel"))(x, axis=axis)

    def _find_largest(self, apart: Any) -> Any:
        """Find the largest of each block, and the largest among these."""
        count, kind = self.attributes.get("k", 1), self.attributes.get("ret_typ", "indices")
        dtype = "float32" if self.shape[self.axis] <= POSITIONS["float32"] else "float64"
        options = {"k": count, "is_ascend": self.attributes.get("is_ascend", False), "dtype": dtype}
        found = mx.sym.topk(apart, axis=self.axis + 1, ret_typ="both", **options)
        candidates = mx.sym.reshape(found[0], shape=self._put(self.blocks * count))
        if kind == "value":
            return mx.sym.topk(candidates, axis=self.axis, ret_typ="value", **options)
        largest = mx.sym.topk(candidates, axis=self.axis, ret_typ="both", **options)
        chosen, positions = mx.sym.BlockGrad(largest[1]), mx.sym.BlockGrad(found[1])
        own = self._look_up(mx.sym.reshape(positions, shape=self._put(self.blocks * count)), chosen, count, dtype)
        position = own + mx.sym.floor(chosen / count) * self.size
        position = mx.sym.cast(position, dtype=self.attributes.get("dtype", "float32"))
        return position if kind == "indices" else mx.sym.Group([largest[0], position])

    def _look_up(self, positions: Any, chosen: Any, count: int, dtype: str) -> Any:
        """Return the positions of the chosen candidates of each line."""
        if count == 1:
            return mx.sym.pick(positions, chosen, axis=self.axis, keepdims=True)
        candidates = self.blocks * count
        ones = (1,) * (len(self.shape) - self.axis - 1)
        own = mx.sym.reshape(
            mx.sym.arange(candidates, dtype=dtype), shape=((1,) * (self.axis + 1)) + (candidates, *ones)
        )
        is_chosen = mx.sym.broadcast_equal(mx.sym.expand_dims(chosen, axis=self.axis + 1), own)
        return mx.sym.sum(
            mx.sym.broadcast_mul(is_chosen, mx.sym.expand_dims(positions, axis=self.axis)), axis=self.axis + 1
        )
