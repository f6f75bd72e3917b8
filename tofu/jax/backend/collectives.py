"""Run collectives (communication between all workers) within a JAX program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from math import prod
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from tofu.jax.frontend.value_types import find_limit
from tofu.jax.frontend.versions import all_gather
from tofu.program.collectives import AllGather, AllReduce, AllToAll, Collective, Exchange, ReduceScatter, Round, Slice
from tofu.program.lockstep import Box


class Workers:
    """The workers of a program, arranged as a mesh, such as 3 x 2 devices."""

    def __init__(self, factors: Sequence[int]) -> None:
        self.factors = tuple(factors)
        self.count = prod(factors)
        self.axis_names = tuple(f"step{n}" for n in range(len(factors)))
        self.scatters_sums = True
        """True if workers may call `lax.psum_scatter`. Otherwise workers exchange shards and add them, at equal cost."""
        self._known_numbers: dict[Any, Any] = {}

    @property
    def mesh_axes(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The sizes and names of the axes of the device grid (mesh)."""
        return (self.factors, self.axis_names) if self.factors else ((1,), ("worker",))

    @property
    def numbers(self) -> np.ndarray[Any, Any]:
        """The numbers of all workers. Each worker receives its number as an argument.

        A program must not call `lax.axis_index` to get this number. With this call, some small loops do not compile on
        CPUs, and some loops that do not use the result.
        """
        return np.arange(self.count, dtype=np.uint32)

    @contextmanager
    def remember(self, me: Any = None) -> Iterator[None]:
        """In the `with` block, compute each number that differs between workers once, and use it again.

        `me` is the worker's number.
        """
        before = self._known_numbers
        self._known_numbers = dict(before) if me is None else {"me": me}
        try:
            yield
        finally:
            self._known_numbers = before

    @property
    def me(self) -> Any:
        """The number of the worker that runs the program."""
        return self._known_numbers["me"]

    def _find_digit(self, axis: int) -> Any:
        if ("digit", axis) not in self._known_numbers:
            digit = self.me // np.uint32(prod(self.factors[axis + 1 :])) % np.uint32(self.factors[axis])
            self._known_numbers["digit", axis] = lax.convert_element_type(digit, np.int32)
        return self._known_numbers["digit", axis]

    def pick(self, table: Any) -> list[Any]:
        """Return this worker's row of `table`. A number that is equal on all workers is a constant."""
        columns = np.asarray(table).reshape(self.count, -1).T
        if columns.dtype != bool:
            columns = columns.astype(np.uint32 if columns.min(initial=0) >= 0 else np.int32)
        return list(map(self._pick_number, columns))

    def _pick_number(self, column: np.ndarray[Any, Any]) -> Any:
        if (column == column[0]).all():
            return column[0]
        key = column.dtype, column.tobytes()
        if key not in self._known_numbers:
            self._known_numbers[key] = lax.squeeze(lax.dynamic_slice(column, (self.me,), (1,)), (0,))
        return self._known_numbers[key]

    def take_part(self, replicated: Any, boxes: Sequence[Box]) -> Any:
        """Return this worker's shard of a replicated array: the region `boxes[worker]`."""
        if not replicated.ndim or all(box == tuple((0, extent) for extent in replicated.shape) for box in boxes):
            return replicated
        begins = self.pick([[begin for begin, _ in box] for box in boxes])
        return take_box(replicated, begins, [end - begin for begin, end in boxes[0]])

    def run(self, collectives: Sequence[Collective], inputs: Sequence[Any]) -> Any:
        """Apply the first collective (such as an all-gather) to `inputs`, and each other one to the previous result."""
        if inputs[0].dtype == bool and any(getattr(collective, "reducer", None) for collective in collectives):
            reduced = self.run(
                collectives, [array.astype(jnp.int8) for array in inputs]
            )  # only numbers can be reduced over devices
            return reduced.astype(bool)
        array = inputs[0]
        for collective in collectives:
            array = (
                self._exchange(collective, inputs, array)
                if isinstance(collective, Exchange)
                else RULES[type(collective)](self, collective, array)
            )
        return array

    def _slice(self, collective: Slice, shard: Any) -> Any:
        size = shard.shape[collective.dimension] // self.factors[collective.axis]
        begin = self._find_digit(collective.axis) * size
        begins, extents = [np.int32(0)] * shard.ndim, list(shard.shape)
        begins[collective.dimension], extents[collective.dimension] = begin, size
        return take_box(shard, begins, extents)

    def _gather(self, collective: AllGather, shard: Any) -> Any:
        return all_gather(shard, self.axis_names[collective.axis], collective.dimension)

    def _all_to_all(self, collective: AllToAll, shard: Any) -> Any:
        name = self.axis_names[collective.axis]
        return lax.all_to_all(shard, name, split_axis=collective.split, concat_axis=collective.gathered, tiled=True)

    def _scatter(self, collective: ReduceScatter, partial: Any) -> Any:
        axis_name, dimension = self.axis_names[collective.axis], collective.dimension
        if collective.reducer == "Sum" and self.scatters_sums:
            return lax.psum_scatter(partial, axis_name, scatter_dimension=dimension, tiled=True)
        part_count = self.factors[collective.axis]
        before, extent, after = partial.shape[:dimension], partial.shape[dimension], partial.shape[dimension + 1 :]
        parts = partial.reshape(*before, part_count, extent // part_count, *after)
        parts = lax.all_to_all(parts, axis_name, split_axis=dimension, concat_axis=dimension, tiled=True)
        return _REDUCERS[collective.reducer].along_dimension(parts, axis=dimension).astype(partial.dtype)

    def _reduce(self, collective: AllReduce, partial: Any) -> Any:
        axis_names = tuple(self.axis_names[axis] for axis in collective.axes)
        return _REDUCERS[collective.reducer].over_devices(partial, axis_names)

    def _exchange(self, exchange: Exchange, inputs: Sequence[Any], previous: Any) -> Any:
        reducer = None if exchange.reducer is None else _REDUCERS[exchange.reducer]
        dtype = inputs[0].dtype
        assembled = previous
        if not exchange.continues:
            fill = _convert_fill(exchange.fill, dtype) if reducer is None else reducer.neutral(dtype)
            assembled = jnp.full(exchange.shape, fill, dtype)
        for round_ in exchange.rounds:
            reader_positions, is_reader = np.zeros((self.count, assembled.ndim), np.int32), np.zeros(self.count, bool)
            for reader, (_, _, position_in_reader) in round_.moves.items():
                reader_positions[reader], is_reader[reader] = position_in_reader, True
            piece = self._send(previous if exchange.continues else inputs[round_.input], round_).reshape(round_.extent)
            position = self.pick(reader_positions)
            old = lax.dynamic_slice(assembled, position, round_.extent) if assembled.ndim else assembled
            new = piece if reducer is None else reducer.of_pair(old, piece)
            new = new if is_reader.all() else lax.select(*self.pick(is_reader), new, old)
            assembled = lax.dynamic_update_slice(assembled, new, position) if assembled.ndim else new
        return assembled

    def _send(self, array: Any, round_: Round) -> Any:
        owner_positions = np.zeros((self.count, array.ndim), np.int32)
        for owner, position_in_owner, _ in round_.moves.values():
            owner_positions[owner] = position_in_owner
        piece = take_box(array, self.pick(owner_positions), round_.source_extent) if array.ndim else array
        sends = [(owner, reader) for reader, (owner, _, _) in sorted(round_.moves.items())]
        return piece if round_.is_local else lax.ppermute(piece, self.axis_names, sends)


RULES: dict[type, Callable[[Workers, Any, Any], Any]] = {
    Slice: Workers._slice,
    AllGather: Workers._gather,
    AllToAll: Workers._all_to_all,
    ReduceScatter: Workers._scatter,
    AllReduce: Workers._reduce,
}


def take_box(array: Any, begins: Sequence[Any], extents: Sequence[int]) -> Any:
    """Return the region of `array` that begins at `begins` and has the shape `extents`."""
    is_known = all(isinstance(begin, (int, np.integer)) for begin in begins)
    if is_known or prod(extents) > 1 or not jnp.issubdtype(array.dtype, jnp.integer):
        return lax.dynamic_slice(array, begins, extents)
    is_element_along = [lax.broadcasted_iota(np.int32, array.shape, d) == begin for d, begin in enumerate(begins)]
    return jnp.where(reduce(jnp.logical_and, is_element_along), array, 0).sum(dtype=array.dtype).reshape(extents)


def _find_maximum(array: Any, axis_names: tuple[str, ...]) -> Any:
    """Return the maximum over devices, or NaN if any number is NaN.

    `lax.pmax` ignores NaN on CPUs, so the numbers are compared as integers.
    """
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return _reduce_in_parts(jnp.max, array, axis_names)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return lax.pmax(array, axis_names)
    if array.dtype.itemsize == 1:  # the types of eight bits have NaN in different places
        return _find_maximum(array.astype(jnp.bfloat16), axis_names).astype(array.dtype)
    integer_type = {2: jnp.int16, 4: jnp.int32, 8: jnp.int64}[array.dtype.itemsize]
    nan = jnp.asarray(jnp.nan, array.dtype)
    integers = lax.bitcast_convert_type(jnp.where(jnp.isnan(array), nan, array), integer_type)
    return lax.bitcast_convert_type(_reorder_negative(lax.pmax(_reorder_negative(integers), axis_names)), array.dtype)


def _find_minimum(array: Any, axis_names: tuple[str, ...]) -> Any:
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return _reduce_in_parts(jnp.min, array, axis_names)
    if jnp.issubdtype(array.dtype, jnp.floating):
        return -_find_maximum(-array, axis_names)
    return lax.pmin(array, axis_names)


def _reduce_in_parts(along_dimension: Callable[..., Any], array: Any, axis_names: tuple[str, ...]) -> Any:
    count = lax.psum(1, axis_names)
    if array.size <= 2:  # each device reduces all elements, which transfers no more bytes
        return along_dimension(lax.all_gather(array, axis_names), axis=0).astype(array.dtype)
    elements = jnp.pad(array.ravel(), (0, -array.size % count)).reshape(count, -1)
    reduced = along_dimension(lax.all_to_all(elements, axis_names, 0, 0, tiled=True), axis=0).astype(array.dtype)
    return all_gather(reduced, axis_names, 0)[: array.size].reshape(array.shape)


def _reorder_negative(integers: Any) -> Any:
    """Convert the bits of floats to integers in the same order. A second call restores the bits."""
    return jnp.where(integers < 0, integers ^ jnp.iinfo(integers.dtype).max, integers)


def _convert_fill(fill: float, dtype: Any) -> Any:
    if not np.isinf(fill) or jnp.issubdtype(dtype, jnp.complexfloating):
        return fill
    if jnp.issubdtype(dtype, jnp.bool_):
        return fill > 0
    return find_limit(1 if fill > 0 else -1, dtype)


class _Reducer(NamedTuple):
    """Functions for a reduction, such as a sum.

    For a sum, `over_devices` adds the arrays of all devices, `of_pair` adds two arrays, and `along_dimension` adds the
    elements of one array. `neutral(dtype)` is the number that changes nothing, such as 0 for a sum.
    """

    over_devices: Callable[[Any, tuple[str, ...]], Any]
    of_pair: Callable[[Any, Any], Any]
    along_dimension: Callable[..., Any]
    neutral: Callable[[Any], Any]


_REDUCERS = {
    "Sum": _Reducer(lax.psum, jnp.add, jnp.sum, lambda _: 0),
    "Max": _Reducer(_find_maximum, jnp.maximum, jnp.max, partial(find_limit, -1)),
    "Min": _Reducer(_find_minimum, jnp.minimum, jnp.min, partial(find_limit, 1)),
    # XLA has no product over devices.
    "Prod": _Reducer(partial(_reduce_in_parts, jnp.prod), jnp.multiply, jnp.prod, lambda _: 1),
}
