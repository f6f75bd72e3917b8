"""Replace reads and writes at known positions by slices and `lax.select`.

JAX's gather, scatter, dynamic slice and dynamic update take positions at run time. A plan cannot know these positions,
so workers would transfer more elements than they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from jax import lax

from tofu.jax.frontend.equations import Equation, Literal, Operand
from tofu.jax.frontend.lookups import (
    clamp,
    find_lookup,
    find_positions,
    is_large,
    list_pieces,
    select_window,
    write_at,
)
from tofu.jax.frontend.stencils import extend_window, pad
from tofu.jax.frontend.value_types import ValueType

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
"""For each scatter, the function that combines an old element with its update, or None if the update replaces it."""
MOST_SLICES = 3  # a concatenation of more slices is not rewritten


def rewrite_dynamic_slice(
    builder: StepBuilder, equation: Equation, types: Sequence[ValueType]
) -> Sequence[Operand] | None:
    """Replace `lax.dynamic_slice` by `lax.slice` in dimensions with a constant start.

    Return None if no start is constant.
    """
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


def rewrite_dynamic_update(
    builder: StepBuilder, equation: Equation, types: Sequence[ValueType]
) -> Sequence[Operand] | None:
    """Replace `lax.dynamic_update_slice` at a constant position by a `lax.select` of old and new elements.

    Return None for small updates, because JAX's compiler writes them in place.
    """
    operand, update, *starts = equation.inputs
    window, shape = builder.find_type(update).shape, types[0].shape
    if window == shape:
        return [update]
    found = _list_constant(starts, shape, window)
    narrower = sum(size < extent for size, extent in zip(window, shape, strict=True))
    if len(found) < narrower or not is_large(window, shape):
        return None
    first = [found.get(d, 0) for d in range(len(window))]
    if (extended := extend_window(builder, update, first, shape, equation)) is not None:
        return builder.substitute(equation, partial(select_window, window, first, None), (operand, extended))
    return builder.substitute(
        equation, lambda x, update: write_at(x, update, first, [1] * len(window)), (operand, update)
    )


def rewrite_gather(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Replace a gather by slices in the dimensions with known positions. Return None if no position is known."""
    (operand, indices), params = equation.inputs, equation.params
    numbers, sizes, rank = params["dimension_numbers"], params["slice_sizes"], len(types[0].shape)
    batched = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    collapsed = set(numbers.collapsed_slice_dims)
    found = find_lookup(builder, operand, indices, numbers.start_index_map, sizes, collapsed, batched, params["mode"])
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


def rewrite_scatter(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Replace a scatter by `lax.select` in the dimensions with known positions. Return None if this is not possible."""
    name, (type_, *_) = equation.primitive.name, types
    if name not in SCATTER_JOINS:
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
    found = find_lookup(builder, operand, indices, dimensions, sizes, inserted, batched, params["mode"])
    if found is None:
        return None
    batch = [d for d in range(len(written)) if d not in numbers.update_window_dims]
    is_complete = not found.rest
    if is_complete and (is_applied or len(found.batches) < len(batch)):
        return None
    join, is_window = SCATTER_JOINS[name], is_complete and not found.batches
    if is_window and join is not None and not is_large(sizes, type_.shape):
        return None

    if is_window and is_large(sizes, type_.shape) and written == (shape := found.find_shape(type_.shape)):
        begins = [found.known[d].first if d in found.known else 0 for d in range(len(shape))]
        extended = extend_window(builder, update, begins, type_.shape, equation)
        if extended is not None:
            return builder.substitute(equation, partial(select_window, shape, begins, join), (operand, extended))

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


def rewrite_concatenation(
    builder: StepBuilder, equation: Equation, types: Sequence[ValueType]
) -> Sequence[Operand] | None:
    """Replace a concatenation of slices, such as `jnp.roll(x, 1)`, by a `lax.select` between shifted arrays.

    If an operand fills more than half of the result, it may also be a computation with slices, such as
    `x[:-2] + x[2:]`. Return None for other concatenations.
    """
    if not 2 <= len(equation.inputs) <= MOST_SLICES:
        return None
    d, shape = equation.params["dimension"], types[0].shape
    begins = [0, *accumulate(builder.find_type(x).shape[d] for x in equation.inputs)]
    moved = _shift_slices(builder, equation, shape, begins) or _extend_pieces(builder, equation, shape, begins)

    def choose(*moved: Any) -> Any:
        position, result = lax.broadcasted_iota(np.int32, shape, d), moved[0]
        for begin, array in zip(begins[1:], moved[1:], strict=False):
            result = lax.select(position < begin, result, array)
        return result

    return moved and builder.substitute(equation, choose, moved)


def rewrite_pad(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Replace the pad of a slice, such as in the gradient of `jnp.roll`, by one pad that shifts the sliced array.

    Return None if the pad would not remove all elements outside the slice.
    """
    operand, number = equation.inputs
    source, bounds = _find_bounds(builder, operand)
    extents, config = builder.find_type(source).shape, equation.params["padding_config"]
    cuts = [(begin, extent - end) for (begin, end), extent in zip(bounds, extents, strict=True)]
    if not any(map(any, cuts)) or any(inner for _, _, inner in config):
        return None
    # Where the slice cut something off, added elements would be those of the array, and not `number`.
    if any(
        cut and room > 0
        for pair, room_pair in zip(cuts, config, strict=True)
        for cut, room in zip(pair, room_pair, strict=False)
    ):
        return None
    room = [(low - begin, high - end, 0) for (begin, end), (low, high, _) in zip(cuts, config, strict=True)]
    return builder.substitute(equation, lambda x, number: lax.pad(x, number, room), (source, number))


def _shift_slices(
    builder: StepBuilder, equation: Equation, shape: Sequence[int], begins: Sequence[int]
) -> Sequence[Operand] | None:
    d = equation.params["dimension"]
    slices = [_find_slice(builder, x, d) for x in equation.inputs]
    source = slices[0][0]
    if isinstance(source, Literal) or any(array != source for array, _, _ in slices):
        return None
    extent = builder.types[source].shape[d]
    if all((begin, end) == (0, extent) for _, begin, end in slices):
        return None
    moved: list[Operand] = []
    for at, (_, begin, _) in zip(begins, slices, strict=False):
        room = [(0, 0)] * len(shape)
        room[d] = at - begin, shape[d] - (at - begin) - extent
        moved += builder.substitute(equation, partial(pad, room), [source])
    return moved


def _extend_pieces(
    builder: StepBuilder, equation: Equation, shape: Sequence[int], begins: Sequence[int]
) -> Sequence[Operand] | None:
    d, rank = equation.params["dimension"], len(shape)
    moved: list[Operand] = []
    for at, end, piece in zip(begins, begins[1:], equation.inputs, strict=False):
        maker = builder.find_producer(piece)
        if maker is None or (maker.primitive.name != "slice" and 2 * (end - at) <= shape[d]):
            return None
        first = [at if n == d else 0 for n in range(rank)]
        extended = extend_window(builder, piece, first, tuple(shape), equation)
        if extended is None:
            return None
        moved.append(extended)
    return moved


def _find_slice(builder: StepBuilder, operand: Operand, d: int) -> tuple[Operand, int, int]:
    source, bounds = _find_bounds(builder, operand)
    extents = builder.find_type(source).shape
    if any(n != d and bound != (0, extent) for n, (bound, extent) in enumerate(zip(bounds, extents, strict=True))):
        return operand, 0, builder.find_type(operand).shape[d]
    return source, *bounds[d]


def _find_bounds(builder: StepBuilder, operand: Operand) -> tuple[Operand, list[tuple[int, int]]]:
    """Return the array that a slice reads, and where the slice begins and ends in each dimension."""
    maker = builder.find_producer(operand)
    name = "" if maker is None else maker.primitive.name
    if maker is not None and name == "slice" and set(maker.params["strides"] or (1,)) == {1}:
        return maker.inputs[0], list(zip(maker.params["start_indices"], maker.params["limit_indices"], strict=True))
    if maker is not None and name == "split":
        ends = list(accumulate(maker.params["sizes"]))
        n = maker.outputs.index(operand)
        bounds = [(0, extent) for extent in builder.find_type(operand).shape]
        bounds[maker.params["axis"]] = ends[n] - maker.params["sizes"][n], ends[n]
        return maker.inputs[0], bounds
    return operand, [(0, extent) for extent in builder.find_type(operand).shape]


def _bind(equation: Equation, params: Mapping[str, Any], rest: Sequence[Any], array: Any, *update: Any) -> Any:
    # The remaining indices may not be sorted any more.
    indices = lax.concatenate(rest, rest[0].ndim - 1)
    return equation.primitive.bind(array, indices, *update, **{**params, "indices_are_sorted": False})


def _is_dropped(builder: StepBuilder, equation: Equation, sizes: Sequence[int]) -> bool:
    indices, numbers = equation.inputs[1], equation.params["dimension_numbers"]
    if equation.params["mode"] != lax.GatherScatterMode.FILL_OR_DROP or len(builder.find_type(indices).shape) != 1:
        return False
    shape = builder.find_type(equation.inputs[0]).shape
    for d, piece in zip(numbers.scatter_dims_to_operand_dims, list_pieces(builder, indices), strict=False):
        at = find_positions(builder, piece, sizes[d], False)
        if at is not None and not at.is_inside(shape[d]):
            return True
    return False


def _list_constant(starts: Sequence[Operand], shape: Sequence[int], sizes: Sequence[int]) -> dict[int, int]:
    return {
        d: clamp(start.number, extent, size)
        for d, (start, extent, size) in enumerate(zip(starts, shape, sizes, strict=True))
        if isinstance(start, Literal) and size < extent
    }
