"""Run collectives in JAX, within a program that all workers run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from math import prod
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from tofu.jax.frontend.versions import all_gather
from tofu.program.collectives import AllGather, AllReduce, AllToAll, Collective, Exchange, ReduceScatter, Round, Slice
from tofu.program.lockstep import Box


class Workers:
    """The workers of a program. They are a mesh with an axis for each *round*, a factor of the number of workers."""

    def __init__(self, factors: Sequence[int]) -> None:
        self.factors = tuple(factors)
        self.count = prod(factors)
        self.axis_names = tuple(f"step{n}" for n in range(len(factors)))
        self.scatters_sums = True
        """True if `lax.psum_scatter` may be used. Otherwise, workers exchange shards and add them, at equal cost."""
        self._picked: dict[Any, Any] = {}

    @property
    def mesh_axes(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Extents and names of the mesh axes. A single worker has an axis too, because JAX 0.12 requires one."""
        return (self.factors, self.axis_names) if self.factors else ((1,), ("worker",))

    @contextmanager
    def remember(self) -> Iterator[None]:
        """Return a context, the trace of a program or a loop body, in which each number is looked up only once."""
        before = self._picked
        self._picked = dict(before)
        _ = self.me  # outside of loops: XLA for CPUs cannot look it up in the kernel of a small loop
        try:
            yield
        finally:
            self._picked = before

    @property
    def me(self) -> Any:
        """Number of the worker that runs."""
        if "me" not in self._picked:
            number: Any = 0
            for axis, factor in enumerate(self.factors):
                number = number * factor + self._find_digit(axis)
            self._picked["me"] = lax.convert_element_type(number, np.uint32)
        return self._picked["me"]

    def _find_digit(self, axis: int) -> Any:
        """Return the position along an axis of the mesh of the worker that runs."""
        if ("digit", axis) not in self._picked:
            self._picked["digit", axis] = lax.axis_index(self.axis_names[axis])
        return self._picked["digit", axis]

    def pick(self, table: Any) -> list[Any]:
        """Return this worker's row of `table`, as a list of numbers.

        A number that is the same for all workers is a constant in the program. Others are unsigned unless one is
        negative, because JAX adds code for negative indices.
        """
        columns = np.asarray(table).reshape(self.count, -1).T
        if columns.dtype != bool:
            columns = columns.astype(np.uint32 if columns.min(initial=0) >= 0 else np.int32)
        return list(map(self._pick_number, columns))

    def _pick_number(self, column: np.ndarray[Any, Any]) -> Any:
        if (column == column[0]).all():
            return column[0]
        key = column.dtype, column.tobytes()
        if key not in self._picked:
            self._picked[key] = lax.squeeze(lax.dynamic_slice(column, (self.me,), (1,)), (0,))
        return self._picked[key]

    def take_part(self, whole: Any, boxes: Sequence[Box]) -> Any:
        """Return this worker's shard of a replicated value."""
        if not whole.ndim or all(box == tuple((0, extent) for extent in whole.shape) for box in boxes):
            return whole
        begins = self.pick([[begin for begin, _ in box] for box in boxes])
        return take_box(whole, begins, [end - begin for begin, end in boxes[0]])

    def run(self, collectives: Sequence[Collective], inputs: Sequence[Any]) -> Any:
        """Apply collectives, one after another, to this worker's arrays."""
        if inputs[0].dtype == bool and any(getattr(collective, "reducer", None) for collective in collectives):
            reduced = self.run(collectives, [x.astype(jnp.int8) for x in inputs])  # devices reduce numbers only
            return reduced.astype(bool)
        x = inputs[0]
        for collective in collectives:
            x = (
                self._exchange(collective, inputs, x)
                if isinstance(collective, Exchange)
                else RULES[type(collective)](self, collective, x)
            )
        return x

    def _slice(self, one: Slice, x: Any) -> Any:
        size = x.shape[one.dimension] // self.factors[one.axis]
        begin = self._find_digit(one.axis) * size
        begins = [begin if d == one.dimension else np.int32(0) for d in range(x.ndim)]
        return take_box(x, begins, [size if d == one.dimension else extent for d, extent in enumerate(x.shape)])

    def _gather(self, one: AllGather, x: Any) -> Any:
        return all_gather(x, self.axis_names[one.axis], one.dimension)

    def _all_to_all(self, one: AllToAll, x: Any) -> Any:
        name = self.axis_names[one.axis]
        return lax.all_to_all(x, name, split_axis=one.split, concat_axis=one.gathered, tiled=True)

    def _scatter(self, one: ReduceScatter, x: Any) -> Any:
        name, dimension = self.axis_names[one.axis], one.dimension
        if one.reducer == "Sum" and self.scatters_sums:
            return lax.psum_scatter(x, name, scatter_dimension=dimension, tiled=True)
        factor = self.factors[one.axis]
        parts = x.reshape(*x.shape[:dimension], factor, x.shape[dimension] // factor, *x.shape[dimension + 1 :])
        parts = lax.all_to_all(parts, name, split_axis=dimension, concat_axis=dimension, tiled=True)
        return _REDUCERS[one.reducer].along(parts, axis=dimension).astype(x.dtype)

    def _reduce(self, one: AllReduce, x: Any) -> Any:
        return _REDUCERS[one.reducer].over(x, tuple(self.axis_names[axis] for axis in one.axes))

    def _exchange(self, exchange: Exchange, inputs: Sequence[Any], before: Any) -> Any:
        reducer = None if exchange.reducer is None else _REDUCERS[exchange.reducer]
        dtype = inputs[0].dtype
        out = before
        if not exchange.continues:
            out = jnp.full(exchange.shape, exchange.fill if reducer is None else reducer.neutral(dtype), dtype)
        for round_ in exchange.rounds:
            targets, active = np.zeros((self.count, out.ndim), np.int32), np.zeros(self.count, bool)
            for reader, (_, _, target) in round_.moves.items():
                targets[reader], active[reader] = target, True
            piece = self._send(before if exchange.continues else inputs[round_.input], round_).reshape(round_.extent)
            at = self.pick(targets)
            old = lax.dynamic_slice(out, at, round_.extent) if out.ndim else out
            new = piece if reducer is None else reducer.of_two(old, piece)
            new = new if active.all() else lax.select(*self.pick(active), new, old)
            out = lax.dynamic_update_slice(out, new, at) if out.ndim else new
        return out

    def _send(self, x: Any, one: Round) -> Any:
        sources = np.zeros((self.count, x.ndim), np.int32)
        for owner, source, _ in one.moves.values():
            sources[owner] = source
        piece = take_box(x, self.pick(sources), one.source_extent) if x.ndim else x
        senders = [(owner, reader) for reader, (owner, _, _) in sorted(one.moves.items())]
        return piece if one.is_local else lax.ppermute(piece, self.axis_names, senders)


RULES: dict[type, Callable[[Workers, Any, Any], Any]] = {
    Slice: Workers._slice,
    AllGather: Workers._gather,
    AllToAll: Workers._all_to_all,
    ReduceScatter: Workers._scatter,
    AllReduce: Workers._reduce,
}


def take_box(x: Any, begins: Sequence[Any], size: Sequence[int]) -> Any:
    """Return the region of an array that begins at computed positions.

    If a single integer is sliced from a product, JAX 0.6.2 on CPUs loses a factor. So one integer is selected by a sum.
    """
    is_known = all(isinstance(begin, (int, np.integer)) for begin in begins)
    if is_known or prod(size) > 1 or not jnp.issubdtype(x.dtype, jnp.integer):
        return lax.dynamic_slice(x, begins, size)
    here = [lax.broadcasted_iota(np.int32, x.shape, d) == begin for d, begin in enumerate(begins)]
    return jnp.where(reduce(jnp.logical_and, here), x, 0).sum(dtype=x.dtype).reshape(size)


def _largest(x: Any, names: tuple[str, ...]) -> Any:
    """Return the maximum over devices, or NaN if any number is NaN, as on one device.

    On CPUs, XLA's maximum over devices ignores NaN. So numbers are converted to integers of the same order, in which
    NaN is the largest.
    """
    bits = {2: jnp.int16, 4: jnp.int32, 8: jnp.int64}.get(x.dtype.itemsize)
    if not jnp.issubdtype(x.dtype, jnp.floating) or bits is None:
        return lax.pmax(x, names)
    numbers = lax.bitcast_convert_type(jnp.where(jnp.isnan(x), jnp.asarray(jnp.nan, x.dtype), x), bits)
    return lax.bitcast_convert_type(_reorder(lax.pmax(_reorder(numbers), names)), x.dtype)


def _smallest(x: Any, names: tuple[str, ...]) -> Any:
    return -_largest(-x, names) if jnp.issubdtype(x.dtype, jnp.floating) else lax.pmin(x, names)


def _product(x: Any, names: tuple[str, ...]) -> Any:
    """Return the product over devices, which XLA lacks. Each device multiplies some elements and receives others."""
    count = lax.psum(1, names)
    cells = jnp.pad(x.ravel(), (0, -x.size % count)).reshape(count, -1)
    parts = jnp.prod(lax.all_to_all(cells, names, 0, 0, tiled=True), axis=0, dtype=x.dtype)
    return all_gather(parts, names, 0)[: x.size].reshape(x.shape)


def _reorder(numbers: Any) -> Any:
    return jnp.where(numbers < 0, numbers ^ jnp.iinfo(numbers.dtype).max, numbers)


def _find_least(dtype: Any) -> Any:
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _find_greatest(dtype: Any) -> Any:
    return jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max


class _Reducer(NamedTuple):
    """A reduction over devices, of two arrays, and along a dimension, with its neutral element."""

    over: Callable[[Any, tuple[str, ...]], Any]
    of_two: Callable[[Any, Any], Any]
    along: Callable[..., Any]
    neutral: Callable[[Any], Any]


_REDUCERS = {
    "Sum": _Reducer(lax.psum, jnp.add, jnp.sum, lambda _: 0),
    "Max": _Reducer(_largest, jnp.maximum, jnp.max, _find_least),
    "Min": _Reducer(_smallest, jnp.minimum, jnp.min, _find_greatest),
    "Prod": _Reducer(_product, jnp.multiply, jnp.prod, lambda _: 1),
}
