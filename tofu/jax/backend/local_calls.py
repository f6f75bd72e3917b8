"""Call JAX operations (*primitives*) on a worker's shards.

Usually, the parameters follow from the operation's description. Some operations, such as `iota`, also need the shard's
position in the complete array, and have a rule in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax

from tofu.analysis import OperatorAccess, find_dimension, find_neutral
from tofu.errors import InternalError
from tofu.jax.backend.random_draws import draw_all, draw_bits, generate_all
from tofu.jax.frontend.equations import Equation, Literal
from tofu.jax.frontend.versions import constrain_row_major, vary_alike
from tofu.program.lockstep import Box, Compute, ProgramValue
from tofu.program.parts import count_own_positions, list_parts
from tofu.search import Choices

BITS: dict[int, np.dtype[Any]] = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
"""The unsigned integer type of each size in bytes."""


class WorkerSelection(Protocol):
    """Interface for access to one worker's data."""

    def pick(self, table: Any) -> list[Any]:
        """Return this worker's row of `table`."""

    def take_part(self, replicated: Any, boxes: Sequence[Box]) -> Any:
        """Return this worker's shard of a replicated array: the region `boxes[worker]`."""


@dataclass(frozen=True)
class RepeatedElements:
    """Elements that a reduction would count twice, because shards overlap.

    Worker w includes only its first `counts[w]` positions of `dimension`. Later elements become `neutral`, such as 0
    for a sum.
    """

    operand: int
    dimension: int
    counts: tuple[int, ...]
    neutral: int

    def leave_out(self, operand: Any, workers: WorkerSelection) -> Any:
        """Replace the repeated elements of an operand by `neutral`."""
        (own_count,) = workers.pick([[own_count] for own_count in self.counts])
        position = lax.broadcasted_iota(np.uint32, operand.shape, self.dimension)
        return jnp.where(position < own_count, operand, jnp.full_like(operand, self.neutral))


@dataclass(frozen=True)
class LocalCall:
    """An equation (JAX operation) to run on a worker's shards.

    Attributes
    ----------
    parameters
        The equation's parameters, adapted to the shapes of shards.
    attributes_by_worker
        Attributes that differ between workers, such as the first position of a shard.
    output_boxes
        `output_boxes[output][worker]` is the region of a worker's shard.
    repeated
        Elements to leave out of a reduction.
    is_overwriting
        True if a slice update reads the array that it updates. JAX's compiler must not compute it in place.
    """

    equation: Equation
    parameters: dict[str, Any]
    attributes_by_worker: Sequence[dict[str, Any]]
    output_boxes: Sequence[Sequence[Box]]
    workers: WorkerSelection
    repeated: Sequence[RepeatedElements] = ()
    is_overwriting: bool = False

    def run(self, operands: list[Any]) -> list[Any]:
        """Compute this worker's results from its shards of the operands."""
        operands = list(operands)
        for repeat in self.repeated:
            operands[repeat.operand] = repeat.leave_out(operands[repeat.operand], self.workers)
        name = self.equation.primitive.name
        rule = LOOKUP_RULES[name] if name in LOOKUP_RULES and self.split_dimensions else RULES.get(name)
        if self.is_overwriting:
            rule = _select_update
        return self.bind(operands) if rule is None else rule(self, operands)

    def bind(self, operands: Sequence[Any], **replaced: Any) -> list[Any]:
        """Call the JAX operation with some parameters replaced."""
        return evaluate(replace(self.equation, params={**self.parameters, **replaced}), operands)

    def pick(self, name: str, default: Any) -> list[Any]:
        """Return this worker's value of the attribute `name`."""
        rows = [attributes.get(name, default) for attributes in self.attributes_by_worker]
        return self.workers.pick([row if isinstance(row, tuple) else (row,) for row in rows])

    @cached_property
    def split_dimensions(self) -> list[int]:
        """The split dimensions of the first operand of an operation that looks up positions, such as a gather."""
        begins = [attributes.get("first", ()) for attributes in self.attributes_by_worker]
        return sorted({d for begin in begins for d, first in enumerate(begin) if first})

    def find_complete_extents(self) -> Any:
        """Return the shape of the first operand before it was split along `split_dimensions`."""
        return next(attributes["rows"] for attributes in self.attributes_by_worker if "rows" in attributes)

    def take_part(self, result: Any, output: int = 0, sharded_dimensions: int = 0) -> Any:
        """Return this worker's shard of a result.

        The first `sharded_dimensions` dimensions are sharded already, and do not change.
        """
        complete = tuple((0, extent) for extent in result.shape[:sharded_dimensions])
        boxes = [(*complete, *box[sharded_dimensions:]) for box in self.output_boxes[output]]
        return self.workers.take_part(result, boxes)


@dataclass(frozen=True)
class CallMaker:
    """A factory that makes a `LocalCall` for each equation (JAX operation) of a step.

    `overwriting` has the results of slice updates that JAX's compiler must not compute in place.
    """

    choices: Choices
    values: Sequence[ProgramValue]
    workers: WorkerSelection
    overwriting: Collection[int] = ()
    _known_attributes: dict[Hashable, list[dict[str, Any]]] = field(default_factory=dict)  # equal operators share these

    def make(self, equation: Equation, compute: Compute) -> LocalCall:
        """Return the call that computes an equation. Raise InternalError if workers need different parameters."""
        access = self.choices.problem.accesses[compute.operator]
        attributes_by_worker = self._find_attributes(access, compute)
        parameters = share_parameters(equation, attributes_by_worker)
        repeated = find_repeated_elements(equation, access, count_own_positions(self.choices, compute.operator))
        boxes = [self.values[number].boxes for number in compute.outputs]
        is_overwriting = equation.outputs[0] in self.overwriting
        return LocalCall(equation, parameters, attributes_by_worker, boxes, self.workers, repeated, is_overwriting)

    def _find_attributes(self, access: OperatorAccess, compute: Compute) -> list[dict[str, Any]]:
        shard_shapes = [
            tuple(self.values[number].shape for number in numbers) for numbers in (compute.inputs, compute.outputs)
        ]
        key = id(access), self.choices.operators[compute.operator].tobytes(), *shard_shapes
        if key not in self._known_attributes:
            self._known_attributes[key] = [
                access.worker_attributes(dict(zip(access.axes, part, strict=True)), *shard_shapes)
                for part in list_parts(self.choices, compute.operator)
            ]
        return self._known_attributes[key]


def find_repeated_elements(
    equation: Equation, access: OperatorAccess, own_counts: Mapping[int, tuple[int, ...]]
) -> list[RepeatedElements]:
    """Find elements that a reduction would count twice, because shards overlap.

    `own_counts[axis][worker]` is the number of positions that the worker includes.
    """
    operands = [n for n, operand in enumerate(equation.inputs) if not isinstance(operand, Literal)]
    has_indices = equation.primitive.name.startswith(("gather", "scatter"))
    repeated = []
    for axis, counts in own_counts.items():
        neutral = find_neutral(access, axis)
        for operand, read in zip(operands, access.inputs, strict=True):
            dimension = find_dimension(read.rows, axis)
            if neutral is not None and dimension is not None and not (has_indices and operand == 1):
                repeated.append(RepeatedElements(operand, dimension, counts, neutral))
    return repeated


def share_parameters(equation: Equation, attributes_by_worker: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Adapt a JAX operation's parameters to shards. Raise InternalError if workers need different values."""
    parameters = dict(equation.params)
    for name in {name for attributes in attributes_by_worker for name in attributes} & parameters.keys():
        values = [attributes.get(name, parameters[name]) for attributes in attributes_by_worker]
        if any(value != values[0] for value in values):
            raise InternalError(
                f"{equation} at {equation.line} needs {name} = {values[0]} on worker 0 and others elsewhere: the parts are not alike."
            )
        parameters[name] = values[0]
    return parameters


def _offset_iota(call: LocalCall, operands: list[Any]) -> list[Any]:
    dtype = call.parameters["dtype"]
    (positions,) = call.bind(operands, dtype=dtype if jnp.issubdtype(dtype, jnp.integer) else jnp.dtype(jnp.int32))
    return [(positions + jnp.asarray(call.pick("first", 0)[0]).astype(positions.dtype)).astype(dtype)]


def _gather(call: LocalCall, operands: list[Any]) -> list[Any]:
    """Gather rows from this worker's shard. The result is zero at rows of other shards."""
    operand, indices = operands
    dimension_numbers, params = call.equation.params["dimension_numbers"], call.equation.params
    first_rows = call.pick("first", (0,) * operand.ndim)
    (dimension,) = dimension_numbers.start_index_map  # only gathers of whole rows split the looked-up dimension
    row_count = int(call.find_complete_extents()[dimension])
    indices = _widen_to_int32(indices)
    row, first_row = indices[..., 0], jnp.asarray(first_rows[dimension], indices.dtype)
    is_inside = (row >= 0) & (row < row_count)
    mode = params["mode"]
    is_clipped = mode != lax.GatherScatterMode.FILL_OR_DROP  # XLA clips out-of-range indices in these modes too
    local_row = (jnp.clip(row, 0, row_count - 1) if is_clipped else row) - first_row
    rows = call.bind([as_bits(operand), local_row[..., None]], mode=lax.GatherScatterMode.FILL_OR_DROP, fill_value=0)[0]
    if mode != lax.GatherScatterMode.FILL_OR_DROP:
        return [rows]
    shape = list(rows.shape)
    for d in dimension_numbers.offset_dims:
        shape[d] = 1
    fill = as_bits(jnp.asarray(find_fill_value(params["fill_value"], operand.dtype), operand.dtype))
    return [jnp.where(is_inside.reshape(shape), rows, jnp.where(first_row == 0, fill, jnp.zeros_like(fill)))]


def as_bits(table: Any) -> Any:
    """Reinterpret floating-point numbers as integers. Then adding zero changes no number, not even -0.0.

    Numbers of 16 bits are returned unchanged, because some devices cannot add 16-bit integers.
    """
    bits = BITS.get(table.dtype.itemsize) if jnp.issubdtype(table.dtype, jnp.floating) else None
    return table if bits is None else lax.bitcast_convert_type(table, bits)


def read_bits(array: Any, dtype: Any) -> Any:
    """Convert a result of `as_bits` back to `dtype`. Other arrays are returned unchanged."""
    is_bits = jnp.issubdtype(dtype, jnp.floating) and array.dtype in BITS.values()
    return lax.bitcast_convert_type(array, dtype) if is_bits else array


def evaluate(equation: Equation, operands: Sequence[Any]) -> list[Any]:
    """Compute the results of a JAX operation on shards. Clamp indices first, to avoid errors of JAX's compiler."""
    name = equation.primitive.name
    if name in ("dynamic_slice", "dynamic_update_slice"):
        operands = _move_inside(name, operands, equation.params)
    if name == "gather" or name.startswith("scatter"):
        operands = [operands[0], _widen_to_int32(operands[1]), *operands[2:]]
    if name == "gather" and equation.params["mode"] != lax.GatherScatterMode.FILL_OR_DROP:
        operands = [operands[0], _clip(operands[0].shape, operands[1], equation.params)]
    results = equation.evaluate(vary_alike(operands))
    return list(map(constrain_row_major, results)) if name == "fft" else results


def _move_inside(name: str, operands: Sequence[Any], parameters: Mapping[str, Any]) -> list[Any]:
    """Clamp the start indices of a dynamic slice or update. JAX's compiler may not clamp them itself."""
    operand_count = 1 if name == "dynamic_slice" else 2
    window_sizes = parameters["slice_sizes"] if name == "dynamic_slice" else operands[1].shape
    clamped = list(operands[:operand_count])
    starts = map(_widen_to_int32, operands[operand_count:])
    for start, extent, window_size in zip(starts, operands[0].shape, window_sizes, strict=True):
        last_start = min(extent - window_size, jnp.iinfo(jnp.result_type(start)).max)
        clamped.append(lax.clamp(jnp.zeros_like(start), start, jnp.full_like(start, last_start)))
    return clamped


def _clip(shape: Sequence[int], indices: Any, parameters: Mapping[str, Any]) -> Any:
    """Clamp the indices of a gather. After `jax.vmap` of a dynamic slice, some are out of bounds."""
    dimensions, slice_sizes = parameters["dimension_numbers"].start_index_map, parameters["slice_sizes"]
    last_start = np.array([shape[d] - slice_sizes[d] for d in dimensions])
    return jnp.clip(indices, 0, np.minimum(last_start, jnp.iinfo(indices.dtype).max).astype(indices.dtype))


def _widen_to_int32(indices: Any) -> Any:
    return indices.astype(jnp.int32) if indices.dtype.itemsize < jnp.dtype(jnp.int32).itemsize else indices


def find_fill_value(fill_value: Any, dtype: Any) -> Any:
    """Return the number that `lax.gather` returns for elements outside the array."""
    if fill_value is not None:
        return fill_value
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.nan
    if jnp.issubdtype(dtype, jnp.bool_):
        return True
    return jnp.iinfo(dtype).min if jnp.issubdtype(dtype, jnp.signedinteger) else jnp.iinfo(dtype).max


def _scatter(call: LocalCall, operands: list[Any]) -> list[Any]:
    operand, indices, updates = operands
    complete_shape = list(operand.shape)
    for d in call.split_dimensions:
        complete_shape[d] = call.find_complete_extents()[d]
    begins = call.pick("first", (0,) * operand.ndim)
    complete_operand = lax.dynamic_update_slice(jnp.zeros(complete_shape, operand.dtype), operand, begins)
    (written,) = call.bind([complete_operand, indices, updates])
    return [lax.dynamic_slice(written, begins, operand.shape)]


def _update_slice(call: LocalCall, operands: list[Any]) -> list[Any]:
    operand, update, *starts = operands
    begins, is_own = _find_begins(call, operand.shape, update.shape, starts), jnp.bool_(True)
    for d in call.split_dimensions:
        window_extent = min(update.shape[d], operand.shape[d])
        begin = jnp.clip(begins[d], 0, operand.shape[d] - window_extent)
        update, is_inside = _read_along(update, d, begin - begins[d], window_extent)
        begins[d], is_own = begin, is_own & is_inside
    old_elements = lax.dynamic_slice(operand, begins, update.shape)
    return [lax.dynamic_update_slice(operand, jnp.where(is_own, update, old_elements), begins)]


def _select_update(call: LocalCall, operands: list[Any]) -> list[Any]:
    operand, update, *starts = operands
    begins, is_updated = _find_begins(call, operand.shape, update.shape, starts), jnp.bool_(True)
    for d, extent in enumerate(operand.shape):
        if d in call.split_dimensions or update.shape[d] < extent:
            update, is_inside = _read_along(update, d, -begins[d], extent)
            is_updated &= is_inside
    return [jnp.where(is_updated, update, operand)]


def _take_slice(call: LocalCall, operands: list[Any]) -> list[Any]:
    """Slice this worker's shard. The result is zero at elements of other shards."""
    operand, *starts = operands
    sizes = call.parameters["slice_sizes"]
    begins, bits, is_own = _find_begins(call, operand.shape, sizes, starts), as_bits(operand), jnp.bool_(True)
    for d in call.split_dimensions:
        bits, is_inside = _read_along(bits, d, begins[d], sizes[d])
        begins[d], is_own = jnp.zeros_like(begins[d]), is_own & is_inside
    bits = lax.dynamic_slice(bits, begins, sizes)
    return [jnp.where(is_own, bits, jnp.zeros_like(bits))]


def _find_begins(
    call: LocalCall, shape: Sequence[int], window_sizes: Sequence[int], starts: Sequence[Any]
) -> list[Any]:
    split_dimensions = call.split_dimensions
    complete_extents = call.find_complete_extents() if split_dimensions else shape
    index_dtype = jnp.int64 if any(jnp.result_type(start) == jnp.int64 for start in starts) else jnp.int32
    begins = []
    for d, (start, shard_begin) in enumerate(zip(starts, call.pick("first", (0,) * len(shape)), strict=True)):
        last_start = (complete_extents if d in split_dimensions else shape)[d] - window_sizes[d]
        clamped = jnp.clip(jnp.asarray(start), 0, min(last_start, jnp.iinfo(jnp.result_type(start)).max))
        begins.append(clamped.astype(index_dtype) - jnp.asarray(shard_begin, index_dtype))
    return begins


def _read_along(array: Any, dimension: int, begin: Any, size: int) -> tuple[Any, Any]:
    position, extent = begin + jnp.arange(size, dtype=begin.dtype), array.shape[dimension]
    shape = [size if d == dimension else 1 for d in range(array.ndim)]
    is_inside = ((position >= 0) & (position < extent)).reshape(shape)
    return jnp.take(array, jnp.clip(position, 0, extent - 1), axis=dimension), is_inside


Rule: TypeAlias = Callable[[LocalCall, list[Any]], list[Any]]
RULES: Mapping[str, Rule] = {
    "iota": _offset_iota,
    "random_bits": draw_bits,
    "random_split": draw_all,
    "rng_bit_generator": generate_all,
}
LOOKUP_RULES: Mapping[str, Rule] = {
    "dynamic_slice": _take_slice,
    "dynamic_update_slice": _update_slice,
    "gather": _gather,
    **dict.fromkeys(("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-max", "scatter-min"), _scatter),
}
"""Rules for primitives that look up positions along a split dimension."""
