"""Find gathers and scatters whose positions are known during tracing, such as `x[3]` and `x[jnp.arange(n) * 2]`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jax import lax

from tofu.jax.frontend.equations import Operand
from tofu.jax.frontend.progressions import find_progression

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import StepBuilder


@dataclass(frozen=True)
class Positions:
    """The known positions of a gather or scatter along one dimension.

    Attributes
    ----------
    first, stride, count
        The positions are `first + stride * n` for `n < count`.
    batch
        The dimension of the index array along which the positions are listed. None for a slice.
    """

    first: int
    stride: int
    count: int
    batch: int | None = None

    @property
    def least(self) -> int:
        """The smallest position."""
        return min(self.first, self.first + self.stride * (self.count - 1))

    def is_inside(self, extent: int) -> bool:
        """Return True if `0 <= position < extent` for all positions."""
        return self.least >= 0 and self.least + abs(self.stride) * (self.count - 1) < extent


@dataclass(frozen=True)
class KnownLookup:
    """A gather or scatter with known positions in some dimensions.

    Attributes
    ----------
    known
        Known positions, for dimensions of the array.
    rest
        Index arrays for other dimensions of the array, with shape (..., 1).
    batches
        Batch dimensions, as {dimension of the array: dimension of the indices}.
    """

    known: Mapping[int, Positions]
    rest: Mapping[int, Operand]
    batches: Mapping[int, int]

    def without_batches(self, dimensions: Iterable[int]) -> tuple[int, ...]:
        """Return the dimensions in `dimensions` that are not batch dimensions."""
        return tuple(d for d in dimensions if d not in self.batches)

    def list_batches(self) -> tuple[int, ...]:
        """Return the values of `batches` in the order of their keys: {2: 0, 1: 3} gives (3, 0)."""
        return tuple(self.batches[d] for d in sorted(self.batches))

    def read(self, array: Any) -> Any:
        """Return the elements of an array at the known positions."""
        first, limits, strides = [0] * array.ndim, list(array.shape), [1] * array.ndim
        for d, at in self.known.items():
            first[d], strides[d] = at.least, abs(at.stride)
            limits[d] = at.least + strides[d] * (at.count - 1) + 1
        return self.reverse_decreasing(lax.slice(array, first, limits, strides))

    def find_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the result of `read`. `shape` is the shape of the array."""
        return tuple(self.known[d].count if d in self.known else extent for d, extent in enumerate(shape))

    def reverse_decreasing(self, part: Any) -> Any:
        """Reverse the dimensions of `part` along which positions decrease."""
        reversed_ = [d for d, at in self.known.items() if at.stride < 0]
        return lax.rev(part, reversed_) if reversed_ else part

    def write(self, array: Any, part: Any, join: Callable[[Any, Any], Any] | None = None) -> Any:
        """Return a copy of `array`. At the known positions, it has the elements of `part`, or `join(old, new)`."""
        part = self.reverse_decreasing(part)
        if part.shape == array.shape:
            return part if join is None else join(array, part)
        begins = [self.known[d].least if d in self.known else 0 for d in range(array.ndim)]
        strides = [abs(self.known[d].stride) if d in self.known else 1 for d in range(array.ndim)]
        if join is None and set(strides) == {1} and not is_large(part.shape, array.shape):
            return lax.dynamic_update_slice(array, part, [np.int32(begin) for begin in begins])
        return write_at(array, part, begins, strides, join)


def find_lookup(
    builder: StepBuilder,
    operand: Operand,
    indices: Operand,
    dimensions: Sequence[int],
    sizes: Sequence[int],
    collapsed: set[int],
    batched: Mapping[int, int],
    mode: Any,
) -> KnownLookup | None:
    """Find the positions of a gather or scatter that do not depend on data. Return None if all depend on data.

    `dimensions`, `sizes` and `collapsed` are `start_index_map`, `slice_sizes` and `collapsed_slice_dims` in
    `lax.gather`. `batched` maps batching dimensions of the operand to batching dimensions of the indices.
    """
    shape = builder.find_type(operand).shape
    partial = (d for d in range(len(shape)) if d not in dimensions and d not in batched and sizes[d] < shape[d])
    known = {d: Positions(0, 1, sizes[d]) for d in partial}
    rest: dict[int, Operand] = {}
    for d, piece in zip(dimensions, list_pieces(builder, indices), strict=False):
        at = find_positions(builder, piece, sizes[d], d in collapsed)
        if at is not None and at.batch is None and mode == lax.GatherScatterMode.CLIP:
            at = Positions(clamp(at.first, shape[d], sizes[d]), 1, sizes[d])
        taken = {*batched.values(), *(found.batch for found in known.values())}
        if at is None or not at.is_inside(shape[d]) or (at.batch is not None and at.batch in taken):
            rest[d] = piece
        else:
            known[d] = at
    batches = {**batched, **{d: at.batch for d, at in known.items() if at.batch is not None}}
    return KnownLookup(known, rest, batches) if known and {*known, *rest}.issuperset(dimensions) else None


def list_pieces(builder: StepBuilder, indices: Operand) -> list[Operand]:
    """If `indices` concatenates one index array for each dimension, return these arrays. Otherwise, return []."""
    shape = builder.find_type(indices).shape
    if shape[-1:] == (1,):
        return [indices]
    maker = builder.find_producer(indices)
    if maker is None or maker.primitive.name != "concatenate" or maker.params["dimension"] != len(shape) - 1:
        return []
    is_apart = all(builder.find_type(x).shape[-1] == 1 for x in maker.inputs)
    return list(maker.inputs) if is_apart else []


def find_positions(builder: StepBuilder, piece: Operand, size: int, is_collapsed: bool) -> Positions | None:
    """Return the positions in `piece`, the index array for one dimension. Return None if they are unknown."""
    found = find_progression(builder, piece)
    if found is None:
        return None
    counted = [d for d, stride in enumerate(found.strides) if stride]
    if not counted:
        return Positions(found.first, 1, size)
    if len(counted) > 1 or not is_collapsed:
        return None
    (d,) = counted
    return Positions(found.first, found.strides[d], found.shape[d], d)


def write_at(
    operand: Any,
    update: Any,
    begins: Sequence[int],
    strides: Sequence[int],
    join: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """Return `operand` with `update` at `[begins[0]::strides[0], ...]`. If `join` is passed, write `join(old, new)`."""
    sizes, extents = update.shape, operand.shape
    ends = [begin + stride * (size - 1) + 1 for begin, stride, size in zip(begins, strides, sizes, strict=True)]
    around = zip(begins, ends, strides, extents, strict=True)
    padding = [(begin, extent - end, stride - 1) for begin, end, stride, extent in around]
    moved = lax.pad(update, np.zeros((), update.dtype), padding)
    return select_window(sizes, begins, join, operand, moved, strides)


def select_window(
    sizes: Sequence[int],
    begins: Sequence[int],
    join: Callable[[Any, Any], Any] | None,
    operand: Any,
    moved: Any,
    strides: Sequence[int] | None = None,
) -> Any:
    """Return an array with elements of `moved` in a window, and of `operand` elsewhere.

    If `join` is passed, elements in the window are `join(old, new)`.
    """
    is_inside = np.bool_(True)
    strides = strides or [1] * len(begins)
    for d, (begin, stride, size, extent) in enumerate(zip(begins, strides, sizes, operand.shape, strict=True)):
        if size < extent:
            position = lax.broadcasted_iota(np.int32, operand.shape, d)
            is_inside = is_inside & (position >= begin) & (position < begin + stride * (size - 1) + 1)
            if stride > 1:
                is_inside = is_inside & (lax.rem(position - begin, lax.full_like(position, stride)) == 0)
    return lax.select(is_inside, moved if join is None else join(operand, moved), operand)


def is_large(sizes: Sequence[int], shape: Sequence[int]) -> bool:
    """Return True if a window spans at least half of each dimension."""
    return all(2 * size >= extent for size, extent in zip(sizes, shape, strict=True))


def clamp(begin: Any, extent: int, size: int) -> int:
    """Return the position nearest to `begin` at which a window of `size` elements fits."""
    return int(min(max(begin, 0), extent - size))
