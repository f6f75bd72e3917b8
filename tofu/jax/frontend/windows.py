"""Reads and writes of a window at a constant position, as operators of which workers fetch no more than the elements that they lack.

A dynamic slice, dynamic update or scatter takes at run time where its window begins, so that more has to be fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import lax

from tofu.jax.frontend.equations import Equation, Literal, Operand, ValueType

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import StepBuilder

JOINED: dict[str, Callable[[Any, Any], Any] | None] = {
    "scatter": None,
    "scatter-add": lax.add,
    "scatter-sub": lax.sub,
    "scatter-mul": lax.mul,
    "scatter-max": lax.max,
    "scatter-min": lax.min,
}
"""How a scatter joins an element with its update; None if the update replaces it."""
MOST_PIECES = 3  # a concatenation of more is left as it is
CONSTANTS = frozenset(("broadcast_in_dim", "concatenate", "convert_element_type", "reshape", "squeeze"))
"""Primitives that make the indices of `x.at[3:5].set(y)` from numbers."""


def read_window(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Return a dynamic slice as a slice along the dimensions in which it begins at a constant; None if there are none."""
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

    return _trace(builder, equation, read, equation.inputs)


def write_window(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Return a scatter or an update of one window at a constant position in another form; None for others.

    A large window is a choice between old and new elements. A small one that is replaced is a dynamic update, which is written in place.
    """
    name, (type_, *_) = equation.primitive.name, types
    if type_.is_key or name not in ("dynamic_update_slice", *JOINED) or not builder.is_planned:
        return None
    operand, *others = equation.inputs
    if name == "dynamic_update_slice":
        update, *starts = others
        own = builder.find_type(update).shape
        found = _list_constant(starts, type_.shape, own)
        partial = sum(size < extent for size, extent in zip(own, type_.shape, strict=True))
        if len(found) < partial or not _is_large(own, type_.shape):
            return None
        first = [found.get(d, 0) for d in range(len(own))]
        return _trace(builder, equation, lambda x, update: place(x, update, first), (operand, update))
    indices, update = others
    window = _find_window(builder, equation, type_.shape, indices, builder.find_type(update).shape)
    if window is None:
        return None
    begins, sizes = window
    if any(begin < 0 or begin + size > extent for begin, size, extent in zip(begins, sizes, type_.shape, strict=True)):
        return [operand]  # an update that is not inside is dropped
    join, is_large = JOINED[name], _is_large(sizes, type_.shape)
    if join is not None and not is_large:
        return None

    def write(operand: Any, update: Any) -> Any:
        update = lax.reshape(update, sizes)
        if is_large:
            return place(operand, update, begins, join)
        return lax.dynamic_update_slice(operand, update, [np.int32(begin) for begin in begins])

    return _trace(builder, equation, write, (operand, update))


def roll(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Return a concatenation of slices of one array, such as `jnp.roll(x, 1)`, as a choice between shifted copies; None for others.

    A slice of one row is split along another dimension than its array, so that its elements would move twice.
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

    return _trace(builder, equation, choose, [source])


def _find_piece(builder: StepBuilder, operand: Operand, d: int) -> tuple[Operand, int, int]:
    """Return the array that an operand is a slice of along one dimension, and where the slice begins and ends."""
    maker = builder.find_maker(operand)
    if maker is not None and maker.primitive.name == "slice" and set(maker.params["strides"] or (1,)) == {1}:
        (source,) = maker.inputs
        shape, begins = builder.find_type(source).shape, maker.params["start_indices"]
        own = builder.types[maker.outputs[0]].shape
        if all(n == d or own[n] == extent for n, extent in enumerate(shape)):
            return source, begins[d], begins[d] + own[d]
    return operand, 0, builder.find_type(operand).shape[d]


def place(operand: Any, update: Any, begins: Sequence[int], join: Callable[[Any, Any], Any] | None = None) -> Any:
    """Return an array with a window replaced by an update, or joined with it, as a choice between the two everywhere."""
    room, is_inside = [], np.bool_(True)
    for d, (begin, size, extent) in enumerate(zip(begins, update.shape, operand.shape, strict=True)):
        room.append((begin, extent - begin - size, 0))
        if size < extent:
            position = lax.broadcasted_iota(np.int32, operand.shape, d)
            is_inside = is_inside & (position >= begin) & (position < begin + size)
    moved = lax.pad(update, np.zeros((), update.dtype), room)
    return lax.select(is_inside, moved if join is None else join(operand, moved), operand)


def _find_window(
    builder: StepBuilder, equation: Equation, shape: Sequence[int], indices: Operand, updates: Sequence[int]
) -> tuple[list[int], list[int]] | None:
    """Return where the one window of a scatter begins in each dimension, and its sizes; None if it is not known or there are several."""
    numbers, mode = equation.params["dimension_numbers"], equation.params["mode"]
    modes = lax.GatherScatterMode
    is_applied = equation.primitive.name == "scatter" and equation.params["update_jaxpr"] is not None
    is_one = len(numbers.update_window_dims) == len(updates) and not numbers.operand_batching_dims
    if (
        is_applied
        or not is_one
        or not numbers.scatter_dims_to_operand_dims
        or mode not in (modes.FILL_OR_DROP, modes.CLIP)
    ):
        return None
    found = _find_numbers(builder, indices)
    if found is None or found.ndim != 1:
        return None
    rest = iter(updates)
    sizes = [1 if d in numbers.inserted_window_dims else next(rest) for d in range(len(shape))]
    begins = [0] * len(shape)
    for d, begin in zip(numbers.scatter_dims_to_operand_dims, found.tolist(), strict=True):
        begins[d] = _clamp(begin, shape[d], sizes[d]) if mode == modes.CLIP else begin
    return begins, sizes


def _find_numbers(builder: StepBuilder, operand: Operand, depth: int = 4) -> np.ndarray[Any, Any] | None:
    """Return the value of an operand that a few equations make from numbers; None of any other."""
    if isinstance(operand, Literal):
        return operand.value
    if depth == 0 or len(builder.types[operand].shape) > 1:
        return None
    maker = builder.find_maker(operand)
    if maker is None or maker.primitive.name not in CONSTANTS:
        return None
    values = [_find_numbers(builder, operand, depth - 1) for operand in maker.inputs]
    if any(value is None for value in values):
        return None
    with jax.ensure_compile_time_eval():
        return np.asarray(maker.evaluate(values)[0])


def _is_large(sizes: Sequence[int], shape: Sequence[int]) -> bool:
    """Return True if a window spans half of each dimension or more: too much to be fetched by each worker."""
    return all(2 * size >= extent for size, extent in zip(sizes, shape, strict=True))


def _list_constant(starts: Sequence[Operand], shape: Sequence[int], sizes: Sequence[int]) -> dict[int, int]:
    """Return where a window begins, by dimension that it does not span and in which it begins at a constant."""
    return {
        d: _clamp(start.number, extent, size)
        for d, (start, extent, size) in enumerate(zip(starts, shape, sizes, strict=True))
        if isinstance(start, Literal) and size < extent
    }


def _clamp(begin: Any, extent: int, size: int) -> int:
    return int(min(max(begin, 0), extent - size))


def _trace(
    builder: StepBuilder, equation: Equation, function: Callable[..., Any], operands: Sequence[Operand]
) -> list[Operand]:
    given = [builder.find_type(operand) for operand in operands]
    described = [jax.ShapeDtypeStruct(array.shape, array.dtype, weak_type=array.weak_type) for array in given]
    closed = jax.make_jaxpr(function)(*described)
    return builder.inline_closed(closed, operands, equation)
