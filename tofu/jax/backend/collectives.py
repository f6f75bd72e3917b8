"""From the parts that workers have of a tensor to those that they need, by collectives.

Where both are shards, a chain of all_gather, all_to_all and slices may do it; whatever it would move too much by, and everything else
(borders of windows, cells that move, parts that overlap), goes box by box through ppermute.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from math import prod
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax

from tofu.analysis import Combine
from tofu.jax.backend.pieces import Piece, Round, count_moved, cut, find_nearest, find_rounds, shift
from tofu.jax.backend.places import Box, Layout, Place, Places
from tofu.jax.frontend.versions import all_gather
from tofu.search.choices import REPLICATED

PARTIAL = -2
"""In a layout: each worker along this step has a partial result."""

Change: TypeAlias = tuple[str, int, int, int]
"""A collective, or a slice, of a chain: what it is, the step along whose axis of the mesh, and the dimensions before and after."""
Once: TypeAlias = "Callable[[Hashable, Callable[[], Any]], Any]"
"""From a key, and what makes a value, to the value."""


def _run(key: Hashable, make: Callable[[], Any]) -> Any:
    return make()


class Workers:
    """The workers as one of them sees them, while it runs: a mesh with an axis for each step of the plan."""

    def __init__(self, factors: Sequence[int]) -> None:
        self.factors = tuple(factors)
        self.count = prod(factors)
        self.axis_names = tuple(f"step{n}" for n in range(len(factors)))
        self.scatters_sums = True
        """Whether sums are scattered by one collective; else workers exchange the parts and each adds its own up, which moves as much."""
        self._picked: dict[Any, Any] = {}

    @contextmanager
    def remember(self) -> Iterator[None]:
        """Within, what is picked once is not picked again. Around the tracing of a program, and of each body of a loop in it, out of which
        nothing comes that was picked there.
        """
        before = self._picked
        self._picked = dict(before)
        try:
            yield
        finally:
            self._picked = before

    @property
    def me(self) -> Any:
        """The number of the worker that runs."""
        if "me" not in self._picked:
            number: Any = 0
            for name, factor in zip(self.axis_names, self.factors, strict=True):
                number = number * factor + lax.axis_index(name)
            self._picked["me"] = lax.convert_element_type(number, np.uint32)
        return self._picked["me"]

    def digits(self, worker: int) -> tuple[int, ...]:
        """Where a worker stands along each axis."""
        return tuple(int(digit) for digit in np.unravel_index(worker, self.factors)) if self.factors else ()

    def pick(self, table: Any) -> list[Any]:
        """The row of `table` that is this worker's, number by number; those that all share are known when the program is made.

        Numbers are unsigned, unless one of them is negative: of those JAX need not ask whether they count from the end.
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
        """The part, on the worker that runs, of a value that each has all of."""
        if not whole.ndim or all(box == tuple((0, extent) for extent in whole.shape) for box in boxes):
            return whole
        begins = self.pick([[begin for begin, _ in box] for box in boxes])
        return take_box(whole, begins, [end - begin for begin, end in boxes[0]])

    def move(self, x: Any, held: Place, wanted: Place, fill: float = 0.0) -> Any:
        """The parts that are wanted out of those that are held; `fill` in cells outside the tensor."""
        if held.boxes == wanted.boxes:
            return x
        chain, _ = self._find_move(held, wanted)
        if chain is not None:
            return self.apply(x, chain)
        return self.exchange(x, held, wanted.boxes, find_nearest(held, wanted.boxes, self.factors), fill=fill)

    def _find_move(self, held: Place, wanted: Place) -> tuple[list[Change] | None, int]:
        """The chain of collectives from shards to shards that moves no more than is needed, and the cells that are, of all workers."""
        exact = count_moved(find_nearest(held, wanted.boxes, self.factors))
        if held.layout is None or wanted.layout is None:
            return None, exact
        chain = find_chain(held.layout, wanted.layout, self.factors)
        if chain is not None and self.count * _count_moved(chain, prod(held.shape), self.factors) > exact:
            chain = None
        return chain, exact

    def apply(self, x: Any, chain: Sequence[Change]) -> Any:
        """A chain of collectives."""
        for kind, step, before, after in chain:
            name = self.axis_names[step]
            if kind == "slice":
                size = x.shape[after] // self.factors[step]
                begins = [lax.axis_index(name) * size if d == after else np.int32(0) for d in range(x.ndim)]
                x = take_box(x, begins, [size if d == after else extent for d, extent in enumerate(x.shape)])
            elif kind == "all_to_all":
                x = lax.all_to_all(x, name, split_axis=after, concat_axis=before, tiled=True)
            else:
                x = all_gather(x, name, before)
        return x

    def scatter(self, x: Any, step: int, dimension: int, reducer: str) -> Any:
        """Partial results along a step put together, of which each worker keeps its part along a dimension."""
        name = self.axis_names[step]
        if reducer == "Sum" and self.scatters_sums:
            return lax.psum_scatter(x, name, scatter_dimension=dimension, tiled=True)
        factor = self.factors[step]
        parts = x.reshape(*x.shape[:dimension], factor, x.shape[dimension] // factor, *x.shape[dimension + 1 :])
        parts = lax.all_to_all(parts, name, split_axis=dimension, concat_axis=dimension, tiled=True)
        return _REDUCERS[reducer].along(parts, axis=dimension).astype(x.dtype)

    def exchange(
        self,
        x: Any,
        held: Place,
        wanted: Sequence[Box],
        pieces: Sequence[Piece],
        *,
        reducer: str | None = None,
        fill: float = 0.0,
        distance: Sequence[int] | None = None,
        into: Any = None,
        once: Once = _run,
    ) -> Any:
        """Box by box: what each piece has is written where its reader wants it, or put together with what is there by a `reducer`.

        Cells come to lie `distance` further on, where pieces have them. `into`: what has been written already, else `fill` everywhere.
        `once`: of what moves at once, by who sends which cells to whom, the result, which may have been moved before.
        """
        distance = tuple(distance or (0,) * x.ndim)
        moved = [shift(box, distance) for box in held.boxes]
        out = jnp.full([e - b for b, e in wanted[0]], fill, x.dtype) if into is None else into
        for one in find_rounds(moved, wanted, pieces):
            size, by_reader = one.size, one.by_reader
            targets, active = np.zeros((self.count, x.ndim), np.int32), np.zeros(self.count, bool)
            for reader, (_, _, target) in by_reader.items():
                targets[reader], active[reader] = target, True
            piece = once((size, one.sent), partial(self._send, x, one))
            at = self.pick(targets)
            old = lax.dynamic_slice(out, at, size) if x.ndim else out
            new = piece if reducer is None else _REDUCERS[reducer].of_two(old, piece)
            new = new if active.all() else lax.select(*self.pick(active), new, old)
            out = lax.dynamic_update_slice(out, new, at) if x.ndim else new
        return out

    def _send(self, x: Any, sent: Round) -> Any:
        """What each reader of a round is sent, or has itself."""
        sources = np.zeros((self.count, x.ndim), np.int32)
        for _, owner, source in sent.sent:
            sources[owner] = source
        piece = take_box(x, self.pick(sources), sent.size) if x.ndim else x
        senders = [(owner, reader) for reader, owner, _ in sent.sent]
        return piece if sent.is_local else lax.ppermute(piece, self.axis_names, senders)

    def settle(self, x: Any, places: Places, operator: int, slot: int) -> Any:
        """From what the copies of an operator have computed of an output to the shards of its tensor."""
        written, tensor = places.access(operator).outputs[slot], places.graph.operators[operator].outputs[slot]
        place, target, axes = places.written(operator, slot), places.tensor(tensor), places.axes(operator)
        combine = [Combine.REPLICATE if axis == REPLICATED else written.combine[axis] for axis in axes]
        if x.dtype == bool and Combine.REDUCE in combine:  # devices reduce numbers alone
            return self.settle(x.astype(jnp.int8), places, operator, slot).astype(bool)
        if place.layout is None or target.layout is None:
            return self._settle_boxes(x, written.reducer, combine, place, places, tensor)
        held = [PARTIAL if c is Combine.REDUCE else d for c, d in zip(combine, place.layout, strict=True)]
        scatters = find_scatters(held, target.layout)
        summed = list(held)
        for step, dimension in scatters:
            summed[step] = dimension
        rest = [step for step, d in enumerate(summed) if d == PARTIAL]
        plain = tuple(REPLICATED if d == PARTIAL else d for d in summed)
        between = places.lay(tensor, plain)
        if PARTIAL in held and between.boxes != target.boxes:
            staged = self.count * self._count_summed(prod(place.shape), scatters, rest)
            staged += self._count_move(between, target)
            adding, copying = self._find_addends(place, target, places.scattered(tensor), combine)
            if staged > count_moved(adding) + count_moved(copying):
                return self._add_up(x, written.reducer, place, target, adding, copying)
        for step, dimension in scatters:
            x = self.scatter(x, step, dimension, written.reducer)
        return self.move(self._reduce(x, written.reducer, rest), between, target)

    def _settle_boxes(
        self, x: Any, reducer: str, combine: Sequence[Combine], place: Place, places: Places, tensor: int
    ) -> Any:
        """The same where parts are no plain shards, or the tensor has none."""
        target = places.tensor(tensor)
        overlap = Combine.OVERLAP_ADD in combine
        assert reducer == "Sum" or not overlap, "regions that overlap are added"
        reduced = [step for step, c in enumerate(combine) if c is Combine.REDUCE]
        if reduced or overlap:
            adding, copying = self._find_addends(place, target, places.scattered(tensor), combine)
            staged = self.count * self._count_summed(prod(place.shape), (), reduced) + self._count_move(place, target)
            if overlap or staged > count_moved(adding) + count_moved(copying):
                return self._add_up(x, reducer, place, target, adding, copying)
        return self.move(self._reduce(x, reducer, reduced), place, target)

    def _reduce(self, x: Any, reducer: str, steps: Sequence[int]) -> Any:
        """Partial results along steps put together, of which each worker keeps all."""
        return _REDUCERS[reducer].over(x, tuple(self.axis_names[step] for step in steps)) if steps else x

    def _add_up(
        self, x: Any, reducer: str, place: Place, target: Place, adding: Sequence[Piece], copying: Sequence[Piece]
    ) -> Any:
        """Puts results together box by box. Replicas are copies of one sum: each would add in an order of its own."""
        fill = _REDUCERS[reducer].neutral(x.dtype)
        x = self.exchange(x, place, target.boxes, adding, reducer=reducer, fill=fill)
        return self.exchange(x, target, target.boxes, copying, into=x) if copying else x

    def _find_addends(
        self, place: Place, target: Place, parts: Sequence[Box], combine: Sequence[Combine]
    ) -> tuple[list[Piece], list[Piece]]:
        """The results that each worker adds up in its part of the sum, and the parts of others that it copies into its shard."""
        alike = [step for step, c in enumerate(combine) if c is Combine.REPLICATE]
        joined = [step for step, c in enumerate(combine) if c is Combine.CONCAT]
        addends = [tuple(d for step, d in enumerate(self.digits(w)) if step not in joined) for w in range(self.count)]
        # By shard, who adds up which part: the first of those with the same one.
        adders: dict[Box, dict[Box, int]] = {shard: {} for shard in target.boxes}
        for worker, (shard, part) in enumerate(zip(target.boxes, parts, strict=True)):
            if all(begin < end for begin, end in part):
                adders[shard].setdefault(part, worker)
        pairs = [(o, r) for o, r in self._find_alike(alike) if adders[target.boxes[r]].get(parts[r]) == r]
        copying = [
            Piece(adder, reader, part)
            for reader, shard in enumerate(target.boxes)
            for part, adder in adders[shard].items()
            if adder != reader
        ]
        return list(cut(pairs, place, parts, list(map(addends.index, addends)))), copying

    def _find_alike(self, steps: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs (owner, reader): who needs whose results where workers compute the same along `steps`, and take their own."""
        digits = [self.digits(worker) for worker in range(self.count)]
        return [
            (owner, reader)
            for reader in range(self.count)
            for owner in range(self.count)
            if all(digits[owner][step] == digits[reader][step] for step in steps)
        ]

    def _count_summed(self, cells: int, scatters: Sequence[tuple[int, int]], rest: Sequence[int]) -> float:
        """The cells that each worker gets from others while partial results of so many are added up."""
        moved = 0.0
        for step, _ in scatters:
            moved += cells * (1 - 1 / self.factors[step])
            cells //= self.factors[step]
        return moved + 2 * cells * (1 - 1 / prod(self.factors[step] for step in rest))

    def _count_move(self, held: Place, wanted: Place) -> float:
        """The cells that `move` moves, of all workers."""
        chain, exact = self._find_move(held, wanted)
        return exact if chain is None else self.count * _count_moved(chain, prod(held.shape), self.factors)


def take_box(x: Any, begins: Sequence[Any], size: Sequence[int]) -> Any:
    """A box of an array, that begins where the program says.

    In JAX 0.6.2 on CPUs XLA loses the number that a box of whole numbers was multiplied by where one cell is taken of the product,
    so that one cell of whole numbers is found as a sum.
    """
    is_known = all(isinstance(begin, (int, np.integer)) for begin in begins)
    if is_known or prod(size) > 1 or not jnp.issubdtype(x.dtype, jnp.integer):
        return lax.dynamic_slice(x, begins, size)
    here = [lax.broadcasted_iota(np.int32, x.shape, d) == begin for d, begin in enumerate(begins)]
    return jnp.where(reduce(jnp.logical_and, here), x, 0).sum(dtype=x.dtype).reshape(size)


def find_scatters(held: Sequence[int], target: Layout) -> list[tuple[int, int]]:
    """The steps along which partial results are added up where each worker keeps a part of the sum, with the dimension of the parts."""
    layout, found = list(held), []
    for step, d in enumerate(layout):
        e = target[step]
        if d != PARTIAL or e == REPLICATED or e in layout[step + 1 :]:
            continue
        if all((layout[r] == e) == (target[r] == e) for r in range(step)):
            found.append((step, e))
            layout[step] = e
    return found


def find_chain(held: Layout, wanted: Layout, factors: Sequence[int]) -> list[Change] | None:
    """From layout to layout, one axis of the mesh at a time, slices first and gathers last; None where that does not get there."""
    now, chain = list(held), list[Change]()
    while tuple(now) != wanted:
        found = []
        for step, (d, e) in enumerate(zip(now, wanted, strict=True)):
            if d == e or (d != REPLICATED and d in now[step + 1 :]):
                continue
            is_in_order = e not in now[step + 1 :] and all((now[r] == e) == (wanted[r] == e) for r in range(step))
            if d == REPLICATED:
                found += [("slice", step, d, e)] if is_in_order else []
            elif e != REPLICATED and is_in_order:
                found.append(("all_to_all", step, d, e))
            else:
                found.append(("gather", step, d, REPLICATED))
        if not found:
            return None
        change = min(found, key=lambda one: ("slice", "all_to_all", "gather").index(one[0]))
        chain.append(change)
        now[change[1]] = change[3]
    return chain


def _count_moved(chain: Sequence[Change], cells: int, factors: Sequence[int]) -> float:
    """The cells that each worker gets from others by a chain that begins with so many."""
    moved = 0.0
    for kind, step, _, _ in chain:
        factor = factors[step]
        if kind == "slice":
            cells //= factor
        elif kind == "all_to_all":
            moved += cells * (factor - 1) / factor
        else:
            moved += cells * (factor - 1)
            cells *= factor
    return moved


def _largest(x: Any, names: tuple[str, ...]) -> Any:
    """The largest over devices, NaN where one has that, as on one device. XLA's own maximum over devices leaves NaN out on CPUs, so numbers
    are compared as whole numbers of the same order, among which NaN is the largest.
    """
    bits = {2: jnp.int16, 4: jnp.int32, 8: jnp.int64}.get(x.dtype.itemsize)
    if not jnp.issubdtype(x.dtype, jnp.floating) or bits is None:
        return lax.pmax(x, names)
    numbers = lax.bitcast_convert_type(jnp.where(jnp.isnan(x), jnp.asarray(jnp.nan, x.dtype), x), bits)
    return lax.bitcast_convert_type(_reorder(lax.pmax(_reorder(numbers), names)), x.dtype)


def _smallest(x: Any, names: tuple[str, ...]) -> Any:
    return -_largest(-x, names) if jnp.issubdtype(x.dtype, jnp.floating) else lax.pmin(x, names)


def _product(x: Any, names: tuple[str, ...]) -> Any:
    """XLA has no product over devices: each makes that of some cells, and gets those of the others."""
    count = lax.psum(1, names)
    cells = jnp.pad(x.ravel(), (0, -x.size % count)).reshape(count, -1)
    parts = jnp.prod(lax.all_to_all(cells, names, 0, 0, tiled=True), axis=0, dtype=x.dtype)
    return all_gather(parts, names, 0)[: x.size].reshape(x.shape)


def _reorder(numbers: Any) -> Any:
    """The bits of floating point numbers as whole numbers of the same order, and back."""
    return jnp.where(numbers < 0, numbers ^ jnp.iinfo(numbers.dtype).max, numbers)


def _find_least(dtype: Any) -> Any:
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _find_greatest(dtype: Any) -> Any:
    return jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max


class _Reducer(NamedTuple):
    """What puts partial results together: those of devices, of two arrays, those along a dimension; `neutral` leaves all as it is."""

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
