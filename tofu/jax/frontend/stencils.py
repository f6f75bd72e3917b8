"""Compute stencils such as `x.at[1:-1].add(x[:-2] + x[2:])` on complete arrays.

In this example, the sum has fewer elements than `x`, so their shards do not match. Instead, Tofu adds shifted copies of
the complete `x`, and ignores elements outside the window `1:-1`. To shift `x`, a worker needs only a few elements from
other workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jax import lax

from tofu.jax.frontend.equations import ELEMENTWISE, Equation, Literal, Operand

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import StepBuilder

Shape = tuple[int, ...]
MOST_EQUATIONS = 256  # to search before each update


def extend_window(
    builder: StepBuilder, window: Operand, begins: Sequence[int], shape: Shape, equation: Equation
) -> Operand | None:
    """Compute an array of shape `shape` that contains `window`, beginning at `begins`.

    Other elements are arbitrary. `window` must be an element-wise function of slices, such as `x[:-2] + x[2:]`.
    Otherwise, return None.
    """
    if isinstance(window, Literal):
        return None
    search = _Search(builder, tuple(begins), shape, builder.types[window].shape)
    return search.build(window, equation) if search.run(window) else None


class _Move(NamedTuple):
    """A slice `[first::stride]` of a dimension, moved by `shift` positions."""

    first: int
    stride: int
    shift: int


class _Search:
    def __init__(self, builder: StepBuilder, begins: Shape, shape: Shape, window_shape: Shape) -> None:
        self.builder = builder
        self.begins, self.shape, self.window_shape = begins, shape, window_shape
        self.computed: dict[int, Equation] = {}
        self.moved: dict[int, tuple[Operand, Sequence[_Move]]] = {}  # slice -> its array, and moves
        self.padded: list[int] = []

    def run(self, window: int) -> bool:
        waiting, seen = [window], {window}
        while waiting and len(seen) <= MOST_EQUATIONS:
            for operand in self._expand(waiting.pop()):
                operand_shape = self.builder.find_type(operand).shape
                if operand_shape != self.window_shape and not self._is_uniform(operand_shape):
                    return False
                if isinstance(operand, int) and operand_shape == self.window_shape and operand not in seen:
                    seen.add(operand)
                    waiting.append(operand)
        return not waiting and bool(self.moved) and len(self.padded) <= 1

    def _is_uniform(self, operand_shape: Shape) -> bool:
        sizes = zip(operand_shape, self.window_shape, self.shape, strict=False)  # a scalar has no dimension
        return all(own == 1 or size == extent for own, size, extent in sizes)

    def _expand(self, value: int) -> Sequence[Operand]:
        maker = self.builder.find_producer(value)
        name = "" if maker is None else maker.primitive.name
        if maker is not None and (name in ELEMENTWISE or (name == "rev" and self._is_inner_reversal(maker))):
            self.computed[value] = maker
            return maker.inputs
        if maker is not None and name == "broadcast_in_dim" and not self.builder.find_type(maker.inputs[0]).shape:
            self.computed[value] = maker
        elif maker is not None and name == "slice" and (moves := self._find_moves(maker)) is not None:
            self.moved[value] = maker.inputs[0], moves
        else:
            self.padded.append(value)
        return ()

    def _find_moves(self, maker: Equation) -> Sequence[_Move] | None:
        extents, starts = self.builder.find_type(maker.inputs[0]).shape, maker.params["start_indices"]
        strides = maker.params["strides"] or (1,) * len(extents)
        moves = []
        for begin, size, target, extent, start, stride in zip(
            self.begins, self.window_shape, self.shape, extents, starts, strides, strict=True
        ):
            stride = max(-(-extent // target), 1) if size == 1 else stride
            shift = begin - start // stride
            if -(-extent // stride) != target or (abs(shift) > size and target - abs(shift) > 2 * size):
                return None
            moves.append(_Move(start % stride, stride, shift))
        return moves

    def _is_inner_reversal(self, maker: Equation) -> bool:
        return all(self.window_shape[d] == self.shape[d] for d in maker.params["dimensions"])

    def build(self, window: int, equation: Equation) -> Operand:
        done: dict[Any, Operand] = {}
        rest = zip(self.begins, self.shape, self.window_shape, strict=True)
        around = [(begin, extent - begin - size) for begin, extent, size in rest]
        for value in sorted((*self.computed, *self.moved, *self.padded)):  # operands come first
            if value in self.computed:
                maker = self.computed[value]
                params = {**maker.params, "shape": self.shape} if "shape" in maker.params else maker.params
                inputs = [x if isinstance(x, Literal) else done.get(x, x) for x in maker.inputs]
                type_ = self.builder.types[value].with_shape(*self.shape)
                done[value] = self.builder.add(maker.primitive, type_, inputs, maker, **params)
                continue
            source, moves = self.moved.get(value, (value, None))
            extend = partial(pad, around) if moves is None else partial(_move, moves, self.shape)
            (done[value],) = self.builder.substitute(equation, extend, [source])
        return done[window]


def _move(moves: Sequence[_Move], shape: Shape, x: Any) -> Any:
    if any(move.stride > 1 for move in moves):
        x = lax.slice(x, [move.first for move in moves], x.shape, [move.stride for move in moves])
    return pad([(move.shift, shape[d] - x.shape[d] - move.shift) for d, move in enumerate(moves)], x)


def pad(room: Sequence[tuple[int, int]], x: Any) -> Any:
    """Add zeros around an array: room=[(2, -1)] adds two zeros in front, and removes the last element."""
    return lax.pad(x, np.zeros((), x.dtype), [(low, high, 0) for low, high in room]) if any(map(any, room)) else x
