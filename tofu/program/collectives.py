"""Recognition of collectives in transfers: all-gathers, reduce-scatters, all-reduces, all-to-alls and slices.

If the workers' arrays before and after a transfer are shards of equal size, a chain of collectives, each along one axis
of the mesh of workers, may do the same. It is used if it transfers no more than the transfer's pieces. All other
transfers (borders of windows, moved elements, overlapping shards) remain exchanges, in which each piece is sent from its
owner to its reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np

from tofu.program.lockstep import Box, Lockstep, Shape, Transfer, TransferPiece

Layout: TypeAlias = tuple[int, ...]
"""The dimension of a tensor that is split along each axis of the mesh. Each round of the plan is one axis."""
REPLICATED = -1
PARTIAL = -2
"""Entry of a layout for an axis along which each worker has a partial result."""


class Slice(NamedTuple):
    """Collective in which each worker along an axis keeps its part of a dimension."""

    axis: int
    dimension: int


class AllGather(NamedTuple):
    """Collective in which each worker along an axis receives the parts of all other workers along a dimension."""

    axis: int
    dimension: int


class AllToAll(NamedTuple):
    """Collective in which workers along an axis exchange parts of dimension `gathered` for parts of dimension `split`."""

    axis: int
    gathered: int
    split: int


class ReduceScatter(NamedTuple):
    """Collective in which workers along an axis reduce partial results, and each keeps its part along a dimension."""

    axis: int
    dimension: int
    reducer: str


class AllReduce(NamedTuple):
    """Collective in which workers along some axes reduce partial results, and each keeps the whole."""

    axes: tuple[int, ...]
    reducer: str


@dataclass
class Round:
    """Boxes of one size that are sent at once, or stay on their workers. Each worker sends and receives at most one.

    `moves` maps the reader to the owner, the box's position there, and its position in the reader's array.
    """

    input: int
    extent: Shape
    along: Shape
    is_local: bool
    moves: dict[int, tuple[int, Shape, Shape]] = field(default_factory=dict)

    @property
    def kind(self) -> tuple[int, Shape, Shape, bool]:
        """The properties that are equal for all boxes of a round."""
        return self.input, self.extent, self.along, self.is_local

    def is_free(self, owner: int, reader: int) -> bool:
        """Return True if the owner sends nothing yet in this round, and the reader receives nothing."""
        return reader not in self.moves and all(owner != other for other, _, _ in self.moves.values())

    @property
    def source_extent(self) -> Shape:
        """The extents of the box in the array that is read."""
        return tuple(1 if d < 0 else self.extent[d] for d in self.along)


@dataclass(frozen=True)
class Exchange:
    """Boxes that workers send each other and write into an array, one round after another.

    The array is filled with `fill` first, or is the result of the previous exchange if `continues` is True. A box replaces
    elements, or is combined with them if there is a `reducer`.
    """

    rounds: tuple[Round, ...]
    shape: Shape
    fill: float = 0.0
    reducer: str | None = None
    continues: bool = False


Collective: TypeAlias = "Slice | AllGather | AllToAll | ReduceScatter | AllReduce | Exchange"


def recognize(program: Lockstep, transfer: Transfer) -> tuple[Collective, ...]:
    """Return the collectives that carry out a transfer."""
    chain = _find_collectives(program, transfer)
    if chain is not None:
        return chain
    shape = program.values[transfer.output].shape
    reducer = transfer.reducer if transfer.is_sum else None
    first = Exchange(find_rounds(transfer.pieces), shape, transfer.fill, reducer)
    copies = (Exchange(find_rounds(transfer.copies), shape, continues=True),) if transfer.copies else ()
    return (first, *copies)


def _find_collectives(program: Lockstep, transfer: Transfer) -> tuple[Collective, ...] | None:
    """Return a chain of collectives that transfers no more than the pieces, or None."""
    output = program.values[transfer.output]
    if len(transfer.inputs) != 1:
        return None
    (source,) = (program.values[value] for value in transfer.inputs)
    rank = len(output.boxes[0])
    reads = (read for piece in transfer.pieces for read in piece.reads)
    if source.tensor != output.tensor or any(read.along != tuple(range(rank)) for read in reads):
        return None
    shape, factors = program.graph.tensors[output.tensor].shape, program.factors
    held, wanted = (find_layout(value.boxes, shape, factors) for value in (source, output))
    cells = prod(source.shape)
    if not transfer.is_sum:
        if held is None or wanted is None or not _covers(transfer.pieces, output.boxes):
            return None
        chain = find_chain(held, wanted, factors)
        if chain is None or program.count * count_moved(chain, cells, factors) > transfer.remote_elements:
            return None
        return tuple(chain)
    summed = _find_summed_axes(program, transfer)
    if summed is None:
        return None
    if held is None or wanted is None:
        moved = program.count * _count_summed(cells, (), summed, factors)
        if source.boxes != output.boxes or moved > transfer.remote_elements:
            return None
        return (AllReduce(summed, transfer.reducer),)
    partial = tuple(PARTIAL if axis in summed else d for axis, d in enumerate(held))
    scatters = find_scatters(partial, wanted)
    scattered = dict(scatters)
    rest = tuple(axis for axis in summed if axis not in scattered)
    between = tuple(scattered.get(axis, REPLICATED if axis in summed else d) for axis, d in enumerate(held))
    chain = find_chain(between, wanted, factors)
    if chain is None:
        return None
    if chain:
        kept = cells // prod(factors[axis] for axis in scattered)
        moved = program.count * (_count_summed(cells, scatters, rest, factors) + count_moved(chain, kept, factors))
        if moved > transfer.remote_elements:
            return None
    found = [ReduceScatter(axis, dimension, transfer.reducer) for axis, dimension in scatters]
    reduced = (AllReduce(rest, transfer.reducer),) if rest else ()
    return (*found, *reduced, *chain)


def find_layout(boxes: Sequence[Box], shape: Shape, factors: Sequence[int]) -> Layout | None:
    """Return the layout whose shards are these boxes, or None if they are not shards of equal size."""
    layout = []
    for axis in range(len(factors)):
        other = boxes[prod(factors[axis + 1 :])]
        moved = [d for d, (first, second) in enumerate(zip(boxes[0], other, strict=True)) if first != second]
        if len(moved) > 1:
            return None
        layout.append(moved[0] if moved else REPLICATED)
    return tuple(layout) if _list_shards(shape, layout, factors) == list(boxes) else None


def _list_shards(shape: Shape, layout: Sequence[int], factors: Sequence[int]) -> list[Box] | None:
    """Return the shards of a layout by worker; None if a dimension does not divide."""
    boxes: list[Box] = [tuple((0, extent) for extent in shape)]
    for dimension, factor in zip(layout, factors, strict=True):
        if dimension == REPLICATED:
            boxes = [box for box in boxes for _ in range(factor)]
            continue
        begin, end = boxes[0][dimension]
        if (end - begin) % factor:
            return None
        boxes = [take_part(box, dimension, factor, digit) for box in boxes for digit in range(factor)]
    return boxes


def take_part(box: Box, dimension: int, factor: int, digit: int) -> Box:
    """Return one of the equal parts of a box along a dimension."""
    begin, end = box[dimension]
    size = (end - begin) // factor
    part = (begin + digit * size, begin + (digit + 1) * size)
    return (*box[:dimension], part, *box[dimension + 1 :])


def _covers(pieces: Sequence[TransferPiece], boxes: Sequence[Box]) -> bool:
    written = [0] * len(boxes)
    for piece in pieces:
        written[piece.reader] += prod(piece.extent)
    return written == [prod(end - begin for begin, end in box) for box in boxes]


def _find_summed_axes(program: Lockstep, transfer: Transfer) -> tuple[int, ...] | None:
    """Return the axes along which workers have partial results of the same box, or None if other results are added."""
    digits = list(np.ndindex(*program.factors))
    boxes = program.values[transfer.inputs[0]].boxes
    summed: set[int] = set()
    for piece in transfer.pieces:
        first = digits[piece.reads[0].owner]
        for read in piece.reads:
            if boxes[read.owner] != boxes[piece.reads[0].owner]:
                return None
            summed.update(axis for axis, digit in enumerate(digits[read.owner]) if digit != first[axis])
    axes = tuple(sorted(summed))
    count = prod(program.factors[axis] for axis in axes)
    for piece in transfer.pieces:
        addends = {tuple(digits[read.owner][axis] for axis in axes) for read in piece.reads}
        if not len(addends) == len(piece.reads) == count:
            return None
    return axes


def find_scatters(held: Sequence[int], target: Layout) -> list[tuple[int, int]]:
    """Return the axes along which partial results are reduce-scattered, with the dimension of the parts."""
    layout, found = list(held), []
    for axis, d in enumerate(layout):
        e = target[axis]
        if d != PARTIAL or e == REPLICATED or e in layout[axis + 1 :]:
            continue
        if all((layout[r] == e) == (target[r] == e) for r in range(axis)):
            found.append((axis, e))
            layout[axis] = e
    return found


def find_chain(held: Layout, wanted: Layout, factors: Sequence[int]) -> list[Slice | AllGather | AllToAll] | None:
    """Return collectives that change one layout to another, each along one axis, or None if no such chain exists.

    Slices come first and gathers last, so that little is transferred.
    """
    now, chain = list(held), list[Slice | AllGather | AllToAll]()
    while tuple(now) != wanted:
        found: list[Slice | AllGather | AllToAll] = []
        for axis, (d, e) in enumerate(zip(now, wanted, strict=True)):
            if d == e or (d != REPLICATED and d in now[axis + 1 :]):
                continue
            is_in_order = e not in now[axis + 1 :] and all((now[r] == e) == (wanted[r] == e) for r in range(axis))
            if d == REPLICATED:
                found += [Slice(axis, e)] if is_in_order else []
            elif e != REPLICATED and is_in_order:
                found.append(AllToAll(axis, d, e))
            else:
                found.append(AllGather(axis, d))
        if not found:
            return None
        change = min(found, key=lambda one: (Slice, AllToAll, AllGather).index(type(one)))
        chain.append(change)
        now[change.axis] = (
            REPLICATED
            if isinstance(change, AllGather)
            else change.split
            if isinstance(change, AllToAll)
            else change.dimension
        )
    return chain


def count_moved(chain: Sequence[Slice | AllGather | AllToAll], cells: int, factors: Sequence[int]) -> float:
    """Return the number of elements that a chain transfers to each worker, if each has `cells` elements at first."""
    moved = 0.0
    for change in chain:
        factor = factors[change.axis]
        if isinstance(change, Slice):
            cells //= factor
        elif isinstance(change, AllToAll):
            moved += cells * (factor - 1) / factor
        else:
            moved += cells * (factor - 1)
            cells *= factor
    return moved


def _count_summed(
    cells: int, scatters: Sequence[tuple[int, int]], rest: Sequence[int], factors: Sequence[int]
) -> float:
    """Return the number of elements that a reduction of arrays of `cells` elements transfers to each worker."""
    moved = 0.0
    for axis, _ in scatters:
        moved += cells * (1 - 1 / factors[axis])
        cells //= factors[axis]
    return moved + 2 * cells * (1 - 1 / prod(factors[axis] for axis in rest))


def find_rounds(pieces: Sequence[TransferPiece]) -> tuple[Round, ...]:
    """Assign pieces greedily to few rounds.

    The addends of each piece stay in order, so that all replicas of a sum are bitwise equal.
    """
    rounds: list[Round] = []
    for piece in pieces:
        first = 0
        for read in piece.reads:
            kind = read.input, piece.extent, read.along, read.owner == piece.reader
            for position in range(first, len(rounds)):
                known = rounds[position]
                if known.kind == kind and known.is_free(read.owner, piece.reader):
                    break
            else:
                position, known = len(rounds), Round(*kind)
                rounds.append(known)
            known.moves[piece.reader] = read.owner, read.begin, piece.begin
            first = position + 1
    return tuple(rounds)
