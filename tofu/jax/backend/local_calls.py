"""Call a primitive on a worker's shards.

Most parameters of the call follow from attributes of the description. There is a rule here for each primitive whose
results depend on the position of the shard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np
from jax import lax

from tofu.analysis import OperatorAccess, find_dimension, find_neutral
from tofu.errors import InternalError
from tofu.jax.frontend.equations import Equation, Literal
from tofu.jax.frontend.versions import constrain_row_major, vary_alike
from tofu.program.lockstep import Box, Compute, ProgramValue
from tofu.program.parts import count_own_positions, list_parts
from tofu.search import Choices

BITS: dict[int, np.dtype[Any]] = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
"""Unsigned integer types by their size in bytes."""


class WorkerSelection(Protocol):
    """The worker that runs, and its part of tables and arrays."""

    def pick(self, table: Any) -> list[Any]:
        """Return the worker's row of `table`."""

    def take_part(self, whole: Any, boxes: Sequence[Box]) -> Any:
        """Return the worker's shard of a replicated value."""


@dataclass(frozen=True)
class RepeatedElements:
    """Elements of a reduction's operand that another worker counts too, because shards overlap.

    They begin at `counts[worker]` along a dimension, and are replaced by `neutral`.
    """

    operand: int
    dimension: int
    counts: tuple[int, ...]
    neutral: int

    def leave_out(self, operand: Any, workers: WorkerSelection) -> Any:
        """Return the operand with the repeated elements replaced."""
        (count,) = workers.pick([[count] for count in self.counts])
        position = lax.broadcasted_iota(np.uint32, operand.shape, self.dimension)
        return jnp.where(position < count, operand, jnp.full_like(operand, self.neutral))


@dataclass(frozen=True)
class LocalCall:
    """An equation to run on a worker's shards.

    Attributes
    ----------
    parameters
        The equation's parameters, changed to fit the shards.
    changed
        For each worker, the attributes that differ from those of the complete operator.
    written
        For each output, the region of each worker's shard.
    repeated
        Elements that other workers count too.
    """

    equation: Equation
    parameters: dict[str, Any]
    changed: Sequence[dict[str, Any]]
    written: Sequence[Sequence[Box]]
    workers: WorkerSelection
    repeated: Sequence[RepeatedElements] = ()

    def run(self, operands: list[Any]) -> list[Any]:
        """Return the results."""
        operands = list(operands)
        for repeat in self.repeated:
            operands[repeat.operand] = repeat.leave_out(operands[repeat.operand], self.workers)
        rule = RULES.get(self.equation.primitive.name)
        if rule is not None:
            return rule(self, operands)
        return self.bind(operands)

    def bind(self, operands: Sequence[Any], **others: Any) -> list[Any]:
        """Evaluate the primitive with some parameters replaced."""
        return evaluate(replace(self.equation, params={**self.parameters, **others}), operands)

    def pick(self, name: str, default: Any) -> list[Any]:
        """Return the running worker's value of an attribute, as a list of numbers."""
        rows = [attributes.get(name, default) for attributes in self.changed]
        return self.workers.pick([row if isinstance(row, tuple) else (row,) for row in rows])

    def take_part(self, whole: Any, number: int = 0, sharded_dimensions: int = 0) -> Any:
        """Return the worker's shard of a result that is complete, except along its first `sharded_dimensions`."""
        kept = tuple((0, extent) for extent in whole.shape[:sharded_dimensions])
        return self.workers.take_part(whole, [(*kept, *box[sharded_dimensions:]) for box in self.written[number]])


def make_call(
    equation: Equation,
    choices: Choices,
    compute: Compute,
    values: Sequence[ProgramValue],
    workers: WorkerSelection,
) -> LocalCall:
    """Return the call that computes an equation on each worker's shards.

    Raise InternalError if a parameter would have to differ between workers.
    """
    operator = compute.operator
    access = choices.problem.accesses[operator]
    inputs, outputs = ([values[number] for number in listed] for listed in (compute.inputs, compute.outputs))
    shapes = [value.shape for value in inputs], [value.shape for value in outputs]
    changed = [
        access.worker_attributes(dict(zip(access.axes, part, strict=True)), *shapes)
        for part in list_parts(choices, operator)
    ]
    parameters = share_parameters(equation, changed)
    repeated = find_repeated_elements(equation, access, count_own_positions(choices, operator))
    return LocalCall(equation, parameters, changed, [value.boxes for value in outputs], workers, repeated)


def find_repeated_elements(
    equation: Equation, access: OperatorAccess, counted: Mapping[int, tuple[int, ...]]
) -> list[RepeatedElements]:
    """Return the elements of operands that another worker counts too.

    `counted` has, for each axis, the number of positions that each worker counts. Indices are never replaced, because
    the equation may assert that they are unique or sorted.
    """
    operands = [n for n, operand in enumerate(equation.inputs) if not isinstance(operand, Literal)]
    has_indices = equation.primitive.name.startswith(("gather", "scatter"))
    found = []
    for axis, counts in counted.items():
        neutral = find_neutral(access, axis)
        for operand, read in zip(operands, access.inputs, strict=True):
            dimension = find_dimension(read.rows, axis)
            if neutral is not None and dimension is not None and not (has_indices and operand == 1):
                found.append(RepeatedElements(operand, dimension, counts, neutral))
    return found


def share_parameters(equation: Equation, changed: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the parameters that an equation has on all workers. `changed` has the attributes of each worker.

    Raise InternalError if a parameter differs between workers.
    """
    parameters = dict(equation.params)
    for name in {name for attributes in changed for name in attributes} & parameters.keys():
        values = [attributes.get(name, parameters[name]) for attributes in changed]
        if any(value != values[0] for value in values):
            raise InternalError(
                f"{equation} at {equation.line} needs {name} = {values[0]} on worker 0 and others elsewhere: the parts are not alike."
            )
        parameters[name] = values[0]
    return parameters


def _offset_iota(call: LocalCall, operands: list[Any]) -> list[Any]:
    """Count from the first position of this worker's shard. Integers are rounded last, as on one device."""
    dtype = call.parameters["dtype"]
    (counted,) = call.bind(operands, dtype=dtype if jnp.issubdtype(dtype, jnp.integer) else jnp.dtype(jnp.int32))
    return [(counted + jnp.asarray(call.pick("first", 0)[0]).astype(counted.dtype)).astype(dtype)]


def _draw_all(call: LocalCall, operands: list[Any]) -> list[Any]:
    """Draw all bits or keys, and return this worker's shard, because each number depends on how many are drawn."""
    (keys,) = operands
    (whole,) = call.bind(operands, shape=call.equation.params["shape"])
    return [call.take_part(whole, sharded_dimensions=keys.ndim)]


def _generate_all(call: LocalCall, operands: list[Any]) -> list[Any]:
    key, whole = call.bind(operands, shape=call.equation.params["shape"])
    return [key, call.take_part(whole, 1)]


def _gather(call: LocalCall, operands: list[Any]) -> list[Any]:
    """Return the rows that are in this worker's shard, and zeros for other rows, as bits for `read_bits`."""
    operand, indices = operands
    numbers, params = call.equation.params["dimension_numbers"], call.equation.params
    first = call.pick("first", (0,) * operand.ndim)
    if _is_whole(call, "first"):
        return call.bind(operands)
    (dimension,) = numbers.start_index_map  # only gathers of whole rows split the looked-up dimension
    rows = int(next(attributes["rows"][dimension] for attributes in call.changed if "rows" in attributes))
    indices = _widen(indices)
    row, begin = indices[..., 0], jnp.asarray(first[dimension], indices.dtype)
    is_inside = (row >= 0) & (row < rows)
    mode = params["mode"]
    is_moved = mode != lax.GatherScatterMode.FILL_OR_DROP  # XLA clips out-of-range indices in these modes too
    moved = (jnp.clip(row, 0, rows - 1) if is_moved else row) - begin
    found = call.bind([as_bits(operand), moved[..., None]], mode=lax.GatherScatterMode.FILL_OR_DROP, fill_value=0)[0]
    if mode != lax.GatherScatterMode.FILL_OR_DROP:
        return [found]
    shape = list(found.shape)
    for d in numbers.offset_dims:
        shape[d] = 1
    fill = as_bits(jnp.asarray(find_fill(params["fill_value"], operand.dtype), operand.dtype))
    return [jnp.where(is_inside.reshape(shape), found, jnp.where(begin == 0, fill, jnp.zeros_like(fill)))]


def as_bits(table: Any) -> Any:
    """Return floating-point numbers as integers with equal bits.

    Adding zeros to these integers changes nothing, but floating-point -0.0 + 0.0 is 0.0. Numbers of 16 bits are
    returned unchanged, because some devices cannot add 16-bit integers.
    """
    bits = BITS.get(table.dtype.itemsize) if jnp.issubdtype(table.dtype, jnp.floating) else None
    return table if bits is None else lax.bitcast_convert_type(table, bits)


def read_bits(found: Any, dtype: Any) -> Any:
    """Convert the result of `as_bits` back to a type. Other arrays are returned unchanged."""
    is_bits = jnp.issubdtype(dtype, jnp.floating) and found.dtype in BITS.values()
    return lax.bitcast_convert_type(found, dtype) if is_bits else found


def evaluate(equation: Equation, operands: Sequence[Any]) -> list[Any]:
    """Return the results of an equation.

    Some primitives need changes that XLA does not need for a program on one device.
    """
    name = equation.primitive.name
    if name in ("dynamic_slice", "dynamic_update_slice"):
        operands = _move_inside(name, operands, equation.params)
    if name == "gather" or name.startswith("scatter"):
        operands = [operands[0], _widen(operands[1]), *operands[2:]]
    if name == "gather" and equation.params["mode"] == lax.GatherScatterMode.CLIP:
        operands = [operands[0], _clip(operands[0].shape, operands[1], equation.params)]
    results = equation.evaluate(vary_alike(operands))
    return list(map(constrain_row_major, results)) if name == "fft" else results


def _move_inside(name: str, operands: Sequence[Any], parameters: Mapping[str, Any]) -> list[Any]:
    """Clamp the start indices of a dynamic slice or update.

    XLA clamps them too, but not if it merges the slice with the slice that takes a worker's shard.
    """
    first = 1 if name == "dynamic_slice" else 2
    sizes = parameters["slice_sizes"] if name == "dynamic_slice" else operands[1].shape
    moved = list(operands[:first])
    for start, extent, size in zip(operands[first:], operands[0].shape, sizes, strict=True):
        most = min(extent - size, jnp.iinfo(jnp.result_type(start)).max)
        moved.append(lax.clamp(jnp.zeros_like(start), start, jnp.full_like(start, most)))
    return moved


def _clip(shape: Sequence[int], indices: Any, parameters: Mapping[str, Any]) -> Any:
    """Clamp the indices of a gather.

    Otherwise XLA may turn a gather of one slice into a dynamic slice and lose the clamp.
    """
    dimensions, sizes = parameters["dimension_numbers"].start_index_map, parameters["slice_sizes"]
    most = np.array([shape[d] - sizes[d] for d in dimensions])
    return jnp.clip(indices, 0, np.minimum(most, jnp.iinfo(indices.dtype).max).astype(indices.dtype))


def _widen(indices: Any) -> Any:
    """Return indices in a type that can hold every row of a table.

    The first row of a shard may exceed a small type, which makes XLA's partitioner abort the process.
    """
    return indices.astype(jnp.int32) if indices.dtype.itemsize < jnp.dtype(jnp.int32).itemsize else indices


def find_fill(fill_value: Any, dtype: Any) -> Any:
    """Return the number that `lax.gather` returns for positions outside of the array."""
    if fill_value is not None:
        return fill_value
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.nan
    if jnp.issubdtype(dtype, jnp.bool_):
        return True
    return jnp.iinfo(dtype).min if jnp.issubdtype(dtype, jnp.signedinteger) else jnp.iinfo(dtype).max


def _scatter(call: LocalCall, operands: list[Any]) -> list[Any]:
    operand, indices, updates = operands
    if _is_whole(call, "first"):
        return call.bind(operands)
    rows = next(attributes["rows"] for attributes in call.changed if "rows" in attributes)
    whole = [rows[d] if d in _list_split_dimensions(call) else extent for d, extent in enumerate(operand.shape)]
    begins = call.pick("first", (0,) * operand.ndim)
    room = lax.dynamic_update_slice(jnp.zeros(whole, operand.dtype), operand, begins)
    (written,) = call.bind([room, indices, updates])
    return [lax.dynamic_slice(written, begins, operand.shape)]


def _update_slice(call: LocalCall, operands: list[Any]) -> list[Any]:
    operand, update, *starts = operands
    if _is_whole(call, "first"):
        return call.bind(operands)
    begins, is_own = _find_begins(call, operand.shape, update.shape, starts), jnp.bool_(True)
    for d in sorted(_list_split_dimensions(call)):
        written = min(update.shape[d], operand.shape[d])
        begin = jnp.clip(begins[d], 0, operand.shape[d] - written)
        update, exists = _read_along(update, d, begin - begins[d], written)
        begins[d], is_own = begin, is_own & exists
    before = lax.dynamic_slice(operand, begins, update.shape)
    return [lax.dynamic_update_slice(operand, jnp.where(is_own, update, before), begins)]


def _take_slice(call: LocalCall, operands: list[Any]) -> list[Any]:
    """Return a dynamic slice with zeros for elements outside of the worker's shard, as bits for `read_bits`."""
    operand, *starts = operands
    if _is_whole(call, "first"):
        return call.bind(operands)
    sizes = call.parameters["slice_sizes"]
    begins, found, is_own = _find_begins(call, operand.shape, sizes, starts), as_bits(operand), jnp.bool_(True)
    for d in sorted(_list_split_dimensions(call)):
        found, exists = _read_along(found, d, begins[d], sizes[d])
        begins[d], is_own = jnp.zeros_like(begins[d]), is_own & exists
    found = lax.dynamic_slice(found, begins, sizes)
    return [jnp.where(is_own, found, jnp.zeros_like(found))]


def _find_begins(call: LocalCall, shape: Sequence[int], sizes: Sequence[int], starts: Sequence[Any]) -> list[Any]:
    """Return where a window begins, relative to the worker's shard of an array with this shape. It may be outside.

    As in JAX, the window is first moved into the complete array. XLA omits that if it merges the slice with another.
    """
    rows, moved = (
        next(attributes["rows"] for attributes in call.changed if "rows" in attributes),
        _list_split_dimensions(call),
    )
    index = jnp.int64 if any(jnp.result_type(start) == jnp.int64 for start in starts) else jnp.int32
    begins = []
    for d, (start, first) in enumerate(zip(starts, call.pick("first", (0,) * len(shape)), strict=True)):
        most = (rows[d] if d in moved else shape[d]) - sizes[d]
        inside = jnp.clip(jnp.asarray(start), 0, min(most, jnp.iinfo(jnp.result_type(start)).max))
        begins.append(inside.astype(index) - jnp.asarray(first, index))
    return begins


def _read_along(array: Any, d: int, begin: Any, size: int) -> tuple[Any, Any]:
    position, extent = begin + jnp.arange(size, dtype=begin.dtype), array.shape[d]
    exists = ((position >= 0) & (position < extent)).reshape([size if n == d else 1 for n in range(array.ndim)])
    return jnp.take(array, jnp.clip(position, 0, extent - 1), axis=d), exists


def _list_split_dimensions(call: LocalCall) -> set[int]:
    return {d for attributes in call.changed for d, first in enumerate(attributes.get("first", ())) if first}


def _is_whole(call: LocalCall, name: str) -> bool:
    return all(not any(attributes.get(name, ())) for attributes in call.changed)


RULES: dict[str, Callable[[LocalCall, list[Any]], list[Any]]] = {
    "dynamic_slice": _take_slice,
    "dynamic_update_slice": _update_slice,
    "gather": _gather,
    "iota": _offset_iota,
    "random_bits": _draw_all,
    "random_split": _draw_all,
    "rng_bit_generator": _generate_all,
    **dict.fromkeys(("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-max", "scatter-min"), _scatter),
}
