"""Rewrite reads and writes at positions that are known before a step runs.

The general primitives (gather, scatter, dynamic slice and dynamic update) take positions at run time. A plan must then
fetch more than the elements that a worker lacks, so they are replaced by slices and selects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jax import lax

from tofu.jax.frontend.equations import Equation, Literal, Operand, ValueType
from tofu.jax.frontend.progressions import find_progression
from tofu.jax.frontend.stencils import extend_window

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import StepBuilder

SCATTER_JOINS: dict[str, Callable[[Any, Any], Any] | None] = {
    "scatter": None,
    "scatter-add": lax.add,
    "scatter-sub": lax.sub,
    "scatter-mul": lax.mul,
    "scatter-max": lax.max,
    "scatter-min": lax.min,
}
"""For each scatter, the function that joins an element with its update. None means that the update replaces it."""
MOST_PIECES = 3  # a concatenation of more slices is not rewritten


@dataclass(frozen=True)
class Positions:
    """The positions that indices select along one dimension of an array.

    Attributes
    ----------
    first, stride, count
        The positions are `first + stride * n` for `n < count`.
    batch
        The dimension of the indices along which the positions follow each other. None for a window at one position.
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
        """Return True if all positions are below `extent` and none is negative."""
        return self.least >= 0 and self.least + abs(self.stride) * (self.count - 1) < extent


@dataclass(frozen=True)
class KnownLookup:
    """The indices of a gather or scatter, some of which are known.

    Attributes
    ----------
    known
        The positions along each dimension whose indices are known.
    rest
        The indices of the other dimensions, as operands whose last dimension has extent 1.
    batches
        The dimension of the indices that belongs to each batch dimension of the array. Dimensions along which known
        positions follow each other are batch dimensions too.
    """

    known: Mapping[int, Positions]
    rest: Mapping[int, Operand]
    batches: Mapping[int, int]

    def without_batches(self, dimensions: Iterable[int]) -> tuple[int, ...]:
        """Return the dimensions of the array that are no batch dimensions."""
        return tuple(d for d in dimensions if d not in self.batches)

    def list_batches(self) -> tuple[int, ...]:
        """Return the dimension of the indices for each batch dimension of the array, in their order."""
        return tuple(self.batches[d] for d in sorted(self.batches))

    def read(self, array: Any) -> Any:
        """Return the elements of an array at the known positions."""
        first, limits, strides = [0] * array.ndim, list(array.shape), [1] * array.ndim
        for d, at in self.known.items():
            first[d], strides[d] = at.least, abs(at.stride)
            limits[d] = at.least + strides[d] * (at.count - 1) + 1
        return self.turn(lax.slice(array, first, limits, strides))

    def find_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape that `read` returns for an array of this shape."""
        return tuple(self.known[d].count if d in self.known else extent for d, extent in enumerate(shape))

    def turn(self, part: Any) -> Any:
        """Reverse the dimensions whose positions decrease."""
        reversed_ = [d for d, at in self.known.items() if at.stride < 0]
        return lax.rev(part, reversed_) if reversed_ else part

    def write(self, array: Any, part: Any, join: Callable[[Any, Any], Any] | None = None) -> Any:
        """Return an array whose elements at the known positions are replaced by `part`, or joined with it."""
        part = self.turn(part)
        if part.shape == array.shape:
            return part if join is None else join(array, part)
        begins = [self.known[d].least if d in self.known else 0 for d in range(array.ndim)]
        strides = [abs(self.known[d].stride) if d in self.known else 1 for d in range(array.ndim)]
        if join is None and set(strides) == {1} and not _is_large(part.shape, array.shape):
            return lax.dynamic_update_slice(array, part, [np.int32(begin) for begin in begins])
        return place(array, part, begins, strides, join)


def read_window(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Replace a dynamic slice by a slice along dimensions with a constant start, or return None if there are none."""
    if equation.primitive.name != "dynamic_slice" or types[0].is_key or not builder.is_planned:
        return None
    operand, *starts = equation.inputs
    shape, sizes = builder.find_type(operand).shape, equation.params["slice_sizes"]
    begins = _list_constant(starts, shape, sizes)
    if not begins:
        return None
    first = [begins.get(d, 0) for d in range(len(shape))]
    limits = [begins[d] + sizes[d] if d in begins else extent for d, extent in enumerate(shape)]

    def read(operand: Any, *starts: Any) -> Any:
        window = lax.slice(operand, first, limits)
        rest = [lax.full_like(start, 0) if d in begins else start for d, start in enumerate(starts)]
        return window if window.shape == tuple(sizes) else lax.dynamic_slice(window, rest, sizes)

    return builder.substitute(equation, read, equation.inputs)


def update_window(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Replace a dynamic update at a constant position by a select between old and new elements, if its window is large.

    A small window is written in place.
    """
    if equation.primitive.name != "dynamic_update_slice" or types[0].is_key or not builder.is_planned:
        return None
    operand, update, *starts = equation.inputs
    window, shape = builder.find_type(update).shape, types[0].shape
    if window == shape:
        return [update]
    found = _list_constant(starts, shape, window)
    narrower = sum(size < extent for size, extent in zip(window, shape, strict=True))
    if len(found) < narrower or not _is_large(window, shape):
        return None
    first = [found.get(d, 0) for d in range(len(window))]
    if (extended := extend_window(builder, update, first, shape, equation)) is not None:
        return builder.substitute(equation, partial(_choose_inside, window, first, None), (operand, extended))
    return builder.substitute(equation, lambda x, update: place(x, update, first, [1] * len(window)), (operand, update))


def read_known(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Replace a gather by slices along dimensions with known positions, or return None if no positions are known."""
    if equation.primitive.name != "gather" or types[0].is_key or not builder.is_planned:
        return None
    (operand, indices), params = equation.inputs, equation.params
    numbers, sizes, rank = params["dimension_numbers"], params["slice_sizes"], len(types[0].shape)
    batched = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    collapsed = set(numbers.collapsed_slice_dims)
    found = _find_lookup(builder, operand, indices, numbers.start_index_map, sizes, collapsed, batched, params["mode"])
    if found is None:
        return None
    batch = [d for d in range(rank) if d not in numbers.offset_dims]

    def read(operand: Any, *rest: Any) -> Any:
        part = found.read(operand)
        if rest:
            slice_sizes = [found.known[d].count if d in found.known else size for d, size in enumerate(sizes)]
            slice_sizes = [1 if d in found.batches else size for d, size in enumerate(slice_sizes)]
            changed = numbers._replace(
                collapsed_slice_dims=found.without_batches(numbers.collapsed_slice_dims),
                start_index_map=tuple(found.rest),
                operand_batching_dims=tuple(sorted(found.batches)),
                start_indices_batching_dims=found.list_batches(),
            )
            others = {**params, "dimension_numbers": changed, "slice_sizes": tuple(slice_sizes)}
            return _bind(equation, others, rest, part)
        part = lax.squeeze(part, found.without_batches(collapsed))
        kept_dims = [d for d in range(operand.ndim) if d not in collapsed or d in found.batches]
        inner = iter(numbers.offset_dims)
        target = [batch[found.batches[d]] if d in found.batches else next(inner) for d in kept_dims]
        order = sorted(range(len(target)), key=target.__getitem__)
        return lax.broadcast_in_dim(lax.transpose(part, order), types[0].shape, sorted(target))

    return builder.substitute(equation, read, (operand, *found.rest.values()))


def write_known(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Replace a scatter by an update of the elements at known positions; return None if no positions are known."""
    name, (type_, *_) = equation.primitive.name, types
    if name not in SCATTER_JOINS or type_.is_key or not builder.is_planned:
        return None
    (operand, indices, update), params = equation.inputs, equation.params
    numbers, written = params["dimension_numbers"], builder.find_type(update).shape
    batched = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    inserted = set(numbers.inserted_window_dims)
    inner = iter(numbers.update_window_dims)
    windows = {d: next(inner) for d in range(len(type_.shape)) if d not in inserted and d not in batched}
    sizes = [written[windows[d]] if d in windows else 1 for d in range(len(type_.shape))]
    if _is_dropped(builder, equation, sizes):
        return [operand]
    is_applied = name == "scatter" and params["update_jaxpr"] is not None
    dimensions = numbers.scatter_dims_to_operand_dims
    found = _find_lookup(builder, operand, indices, dimensions, sizes, inserted, batched, params["mode"])
    if found is None:
        return None
    batch = [d for d in range(len(written)) if d not in numbers.update_window_dims]
    is_complete = not found.rest
    if is_complete and (is_applied or len(found.batches) < len(batch)):
        return None
    join, is_window = SCATTER_JOINS[name], is_complete and not found.batches
    if is_window and join is not None and not _is_large(sizes, type_.shape):
        return None

    if is_window and _is_large(sizes, type_.shape) and written == (shape := found.find_shape(type_.shape)):
        begins = [found.known[d].first if d in found.known else 0 for d in range(len(shape))]
        extended = extend_window(builder, update, begins, type_.shape, equation)
        if extended is not None:
            return builder.substitute(equation, partial(_choose_inside, shape, begins, join), (operand, extended))

    def write(operand: Any, update: Any, *rest: Any) -> Any:
        if is_complete:
            source = [batch[found.batches[d]] if d in found.batches else windows.get(d) for d in range(operand.ndim)]
            own = lax.transpose(update, [n for n in source if n is not None])
            return found.write(operand, lax.reshape(own, found.find_shape(type_.shape)), join)
        changed = numbers._replace(
            inserted_window_dims=found.without_batches(numbers.inserted_window_dims),
            scatter_dims_to_operand_dims=tuple(found.rest),
            operand_batching_dims=tuple(sorted(found.batches)),
            scatter_indices_batching_dims=found.list_batches(),
        )
        return found.write(
            operand, _bind(equation, {**params, "dimension_numbers": changed}, rest, found.read(operand), update)
        )

    return builder.substitute(equation, write, (operand, update, *found.rest.values()))


def roll(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Replace a concatenation of slices of one array, such as `jnp.roll(x, 1)`, by a select between shifted copies.

    Return None for other concatenations. A slice of one row could not be split along the dimension along which its
    array is split, so its elements would be transferred twice.
    """
    if equation.primitive.name != "concatenate" or types[0].is_key or not builder.is_planned:
        return None
    if not 2 <= len(equation.inputs) <= MOST_PIECES:
        return None
    d = equation.params["dimension"]
    pieces = [_find_piece(builder, x, d) for x in equation.inputs]
    source = pieces[0][0]
    if isinstance(source, Literal) or any(piece[0] != source for piece in pieces):
        return None
    extent = builder.types[source].shape[d]
    if all((begin, end) == (0, extent) for _, begin, end in pieces):
        return None

    def choose(x: Any) -> Any:
        position = lax.broadcasted_iota(np.int32, types[0].shape, d)
        result, at = None, 0
        for _, begin, end in pieces:
            room = [(0, 0, 0)] * x.ndim
            room[d] = (at - begin, types[0].shape[d] - (at - begin) - extent, 0)
            moved = lax.pad(x, np.zeros((), x.dtype), room)
            result = moved if result is None else lax.select(position < at, result, moved)
            at += end - begin
        return result

    return builder.substitute(equation, choose, [source])


def _find_piece(builder: StepBuilder, operand: Operand, d: int) -> tuple[Operand, int, int]:
    """Return the array that an operand is a slice of along a dimension, and where the slice begins and ends."""
    maker = builder.find_maker(operand)
    if maker is not None and maker.primitive.name == "slice" and set(maker.params["strides"] or (1,)) == {1}:
        (source,) = maker.inputs
        shape, begins = builder.find_type(source).shape, maker.params["start_indices"]
        piece_shape = builder.types[maker.outputs[0]].shape
        if all(n == d or piece_shape[n] == extent for n, extent in enumerate(shape)):
            return source, begins[d], begins[d] + piece_shape[d]
    return operand, 0, builder.find_type(operand).shape[d]


def place(
    operand: Any,
    update: Any,
    begins: Sequence[int],
    strides: Sequence[int],
    join: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """Return an array with elements at regular positions replaced by `update`, or joined with it, by a select."""
    sizes, extents = update.shape, operand.shape
    ends = [begin + stride * (size - 1) + 1 for begin, stride, size in zip(begins, strides, sizes, strict=True)]
    around = zip(begins, ends, strides, extents, strict=True)
    room = [(begin, extent - end, stride - 1) for begin, end, stride, extent in around]
    moved = lax.pad(update, np.zeros((), update.dtype), room)
    return _choose_inside(sizes, begins, join, operand, moved, strides)


def _choose_inside(
    sizes: Sequence[int],
    begins: Sequence[int],
    join: Callable[[Any, Any], Any] | None,
    operand: Any,
    moved: Any,
    strides: Sequence[int] | None = None,
) -> Any:
    """Return an array with the elements of a window replaced by those of `moved`, or joined with them."""
    is_inside = np.bool_(True)
    strides = strides or [1] * len(begins)
    for d, (begin, stride, size, extent) in enumerate(zip(begins, strides, sizes, operand.shape, strict=True)):
        if size < extent:
            position = lax.broadcasted_iota(np.int32, operand.shape, d)
            is_inside = is_inside & (position >= begin) & (position < begin + stride * (size - 1) + 1)
            if stride > 1:
                is_inside = is_inside & (lax.rem(position - begin, lax.full_like(position, stride)) == 0)
    return lax.select(is_inside, moved if join is None else join(operand, moved), operand)


def _find_lookup(
    builder: StepBuilder,
    operand: Operand,
    indices: Operand,
    dimensions: Sequence[int],
    sizes: Sequence[int],
    collapsed: set[int],
    batched: Mapping[int, int],
    mode: Any,
) -> KnownLookup | None:
    """Return which positions of a gather or scatter are known, or None if none are.

    `dimensions` are those that the indices name, `sizes` those of a window. `batched` maps batch dimensions of the
    operand to those of the indices.
    """
    shape = builder.find_type(operand).shape
    partial = (d for d in range(len(shape)) if d not in dimensions and d not in batched and sizes[d] < shape[d])
    known = {d: Positions(0, 1, sizes[d]) for d in partial}
    rest: dict[int, Operand] = {}
    for d, piece in zip(dimensions, _list_pieces(builder, indices), strict=False):
        at = _find_positions(builder, piece, sizes[d], d in collapsed)
        if at is not None and at.batch is None and mode == lax.GatherScatterMode.CLIP:
            at = Positions(_clamp(at.first, shape[d], sizes[d]), 1, sizes[d])
        taken = {*batched.values(), *(found.batch for found in known.values())}
        if at is None or not at.is_inside(shape[d]) or (at.batch is not None and at.batch in taken):
            rest[d] = piece
        else:
            known[d] = at
    batches = {**batched, **{d: at.batch for d, at in known.items() if at.batch is not None}}
    return KnownLookup(known, rest, batches) if known and {*known, *rest}.issuperset(dimensions) else None


def _list_pieces(builder: StepBuilder, indices: Operand) -> list[Operand]:
    """Return the indices along each dimension as separate operands, or nothing if the program does not concatenate them."""
    shape = builder.find_type(indices).shape
    if shape[-1:] == (1,):
        return [indices]
    maker = builder.find_maker(indices)
    if maker is None or maker.primitive.name != "concatenate" or maker.params["dimension"] != len(shape) - 1:
        return []
    is_apart = all(builder.find_type(x).shape[-1] == 1 for x in maker.inputs)
    return list(maker.inputs) if is_apart else []


def _find_positions(builder: StepBuilder, piece: Operand, size: int, is_collapsed: bool) -> Positions | None:
    """Return the positions that indices along one dimension name, or None if they are unknown or of another form."""
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


def _bind(equation: Equation, params: Mapping[str, Any], rest: Sequence[Any], array: Any, *update: Any) -> Any:
    """Return the result of a gather or scatter with the indices `rest`, which may not be sorted any more."""
    indices = lax.concatenate(rest, rest[0].ndim - 1)
    return equation.primitive.bind(array, indices, *update, **{**params, "indices_are_sorted": False})


def _is_dropped(builder: StepBuilder, equation: Equation, sizes: Sequence[int]) -> bool:
    """Return True if a scatter writes nothing, because its only window is not inside of the array."""
    indices, numbers = equation.inputs[1], equation.params["dimension_numbers"]
    if equation.params["mode"] != lax.GatherScatterMode.FILL_OR_DROP or len(builder.find_type(indices).shape) != 1:
        return False
    shape = builder.find_type(equation.inputs[0]).shape
    for d, piece in zip(numbers.scatter_dims_to_operand_dims, _list_pieces(builder, indices), strict=False):
        at = _find_positions(builder, piece, sizes[d], False)
        if at is not None and not at.is_inside(shape[d]):
            return True
    return False


def _is_large(sizes: Sequence[int], shape: Sequence[int]) -> bool:
    """Return True if a window spans at least half of each dimension."""
    return all(2 * size >= extent for size, extent in zip(sizes, shape, strict=True))


def _list_constant(starts: Sequence[Operand], shape: Sequence[int], sizes: Sequence[int]) -> dict[int, int]:
    return {
        d: _clamp(start.number, extent, size)
        for d, (start, extent, size) in enumerate(zip(starts, shape, sizes, strict=True))
        if isinstance(start, Literal) and size < extent
    }


def _clamp(begin: Any, extent: int, size: int) -> int:
    return int(min(max(begin, 0), extent - size))
