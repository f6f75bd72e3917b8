"""Recognition of collectives in transfers: all-gathers, reduce-scatters, all-reduces, all-to-alls and slices.

A transfer changes the arrays of all workers. If these arrays are shards of equal size before and after the transfer, a
chain of collectives may replace the transfer. Each collective runs along an axis of the grid (mesh) of workers. The
chain is used if it transfers no more elements than the transfer.

All other transfers are exchanges, in which workers send regions to the workers that read them. Examples are borders of
windows, moved elements, and overlapping shards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np

from tofu.program.lockstep import Box, Lockstep, Pattern, ProgramValue, Shape, Transfer, TransferPiece

Layout: TypeAlias = tuple[int, ...]
"""For each axis of the mesh of workers, the dimension of a tensor that is split along it."""
REPLICATED = -1
PARTIAL = -2
"""The entry in a layout if each worker along an axis has a partial result."""


class Slice(NamedTuple):
    """A split without communication. Each worker keeps one part of `dimension`.

    The workers form a grid (mesh). A worker's position along axis `axis` of the grid selects the part.
    """

    axis: int
    dimension: int


class AllGather(NamedTuple):
    """An all-gather. Workers along axis `axis` of their grid (mesh) send each other their parts of `dimension`."""

    axis: int
    dimension: int


class AllToAll(NamedTuple):
    """An all-to-all. Workers along axis `axis` of their grid (mesh) exchange parts of a tensor.

    Before, dimension `gathered` is split over them. Afterwards, dimension `split` is split instead.
    """

    axis: int
    gathered: int
    split: int


class ReduceScatter(NamedTuple):
    """A reduce-scatter. Workers along axis `axis` of their grid (mesh) reduce partial results.

    Each worker keeps its part of `dimension`.
    """

    axis: int
    dimension: int
    reducer: str


class AllReduce(NamedTuple):
    """An all-reduce. Workers along some axes of their grid (mesh) reduce partial results, and keep the whole result."""

    axes: tuple[int, ...]
    reducer: str


@dataclass
class Round:
    """Regions of equal shape that are sent at the same time. Each worker sends and receives at most one region.

    If `is_local` is True, each worker copies within its memory. `moves` maps a receiver to (sender, begin in the
    sender's array, begin in the receiver's array).
    """

    input: int
    extent: Shape
    along: Shape
    is_local: bool
    moves: dict[int, tuple[int, Shape, Shape]] = field(default_factory=dict)

    @property
    def source_extent(self) -> Shape:
        """The shape of each region in the sender's array."""
        return tuple(1 if d < 0 else self.extent[d] for d in self.along)


@dataclass(frozen=True)
class Exchange:
    """Regions that workers send each other in rounds, to fill an array.

    The array starts with `fill` in every element or, if `continues` is True, with the result of the previous exchange.
    A `reducer` such as "Sum" combines old and new elements.
    """

    rounds: tuple[Round, ...]
    shape: Shape
    fill: float = 0.0
    reducer: str | None = None
    continues: bool = False


Collective: TypeAlias = "Slice | AllGather | AllToAll | ReduceScatter | AllReduce | Exchange"


def recognize(program: Lockstep, transfer: Transfer) -> tuple[Collective, ...]:
    """Return standard operations (collectives) with the same result as a transfer, such as an all-gather."""
    chain = _find_collectives(program, transfer)
    if chain is not None:
        return chain
    shape, pattern = program.values[transfer.output].shape, transfer.pattern
    reducer = pattern.reducer if pattern.is_sum else None
    first = Exchange(find_rounds(pattern.pieces), shape, pattern.fill, reducer)
    copies = (Exchange(find_rounds(pattern.copies), shape, continues=True),) if pattern.copies else ()
    return (first, *copies)


def _find_collectives(program: Lockstep, transfer: Transfer) -> tuple[Collective, ...] | None:
    output = program.values[transfer.output]
    if len(transfer.inputs) != 1:
        return None
    source = program.values[transfer.inputs[0]]
    dimensions = tuple(range(len(output.boxes[0])))
    reads = (read for piece in transfer.pattern.pieces for read in piece.reads)
    if source.tensor != output.tensor or any(read.along != dimensions for read in reads):
        return None
    find_collectives = _find_reducing_collectives if transfer.pattern.is_sum else _find_moving_collectives
    return find_collectives(program, transfer, source, output)


def _find_moving_collectives(
    program: Lockstep, transfer: Transfer, source: ProgramValue, output: ProgramValue
) -> tuple[Collective, ...] | None:
    source_layout, output_layout = (_find_value_layout(program, value) for value in (source, output))
    if source_layout is None or output_layout is None or not _covers(transfer.pattern, output.boxes):
        return None
    chain = find_chain(source_layout, output_layout, program.factors)
    if chain is None:
        return None
    received = program.count * count_received(chain, prod(source.shape), program.factors)
    return tuple(chain) if received <= transfer.pattern.remote_elements else None


def _find_reducing_collectives(
    program: Lockstep, transfer: Transfer, source: ProgramValue, output: ProgramValue
) -> tuple[Collective, ...] | None:
    factors, elements = program.factors, prod(source.shape)
    reduced_axes = _find_reduced_axes(program, transfer)
    if reduced_axes is None:
        return None
    source_layout, output_layout = (_find_value_layout(program, value) for value in (source, output))
    if source_layout is None or output_layout is None:
        received = program.count * _count_received_by_reduction(elements, (), reduced_axes, factors)
        if source.boxes != output.boxes or received > transfer.pattern.remote_elements:
            return None
        return (AllReduce(reduced_axes, transfer.pattern.reducer),)
    partial_layout = [PARTIAL if axis in reduced_axes else d for axis, d in enumerate(source_layout)]
    scatters = find_scatters(partial_layout, output_layout)
    dimension_by_axis = dict(scatters)
    all_reduced_axes = tuple(axis for axis in reduced_axes if axis not in dimension_by_axis)
    reduced_layout = tuple(
        dimension_by_axis.get(axis, REPLICATED if axis in reduced_axes else d) for axis, d in enumerate(source_layout)
    )
    chain = find_chain(reduced_layout, output_layout, factors)
    if chain is None:
        return None
    if chain:
        reduced_elements = elements // prod(factors[axis] for axis in dimension_by_axis)
        received = program.count * (
            _count_received_by_reduction(elements, scatters, all_reduced_axes, factors)
            + count_received(chain, reduced_elements, factors)
        )
        if received > transfer.pattern.remote_elements:
            return None
    reduce_scatters = (ReduceScatter(axis, dimension, transfer.pattern.reducer) for axis, dimension in scatters)
    all_reduces = (AllReduce(all_reduced_axes, transfer.pattern.reducer),) if all_reduced_axes else ()
    return (*reduce_scatters, *all_reduces, *chain)


def _find_value_layout(program: Lockstep, value: ProgramValue) -> Layout | None:
    return find_layout(value.boxes, program.graph.tensors[value.tensor].shape, program.factors)


def find_layout(boxes: Sequence[Box], shape: Shape, factors: Sequence[int]) -> Layout | None:
    """Return the split of a tensor in which worker w stores the region `boxes[w]`.

    Return None if the regions are not equal parts.
    """
    layout = []
    for axis in range(len(factors)):
        neighbor_box = boxes[prod(factors[axis + 1 :])]  # of the worker after worker 0 along the axis
        bounds = zip(boxes[0], neighbor_box, strict=True)
        split_dimensions = [d for d, (first, second) in enumerate(bounds) if first != second]
        if len(split_dimensions) > 1:
            return None
        layout.append(split_dimensions[0] if split_dimensions else REPLICATED)
    return tuple(layout) if _list_shards(shape, layout, factors) == list(boxes) else None


def _list_shards(shape: Shape, layout: Sequence[int], factors: Sequence[int]) -> list[Box] | None:
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
    """Divide a box into `factor` parts along a dimension, and return part number `digit`."""
    begin, end = box[dimension]
    size = (end - begin) // factor
    part = (begin + digit * size, begin + (digit + 1) * size)
    return (*box[:dimension], part, *box[dimension + 1 :])


def _covers(pattern: Pattern, boxes: Sequence[Box]) -> bool:
    written_elements = [0] * len(boxes)
    for piece in pattern.pieces:
        written_elements[piece.reader] += prod(piece.extent)
    return all(
        written_elements[reader] == prod(end - begin for begin, end in boxes[reader])
        for reader in pattern.readers or range(len(boxes))
    )


def _find_reduced_axes(program: Lockstep, transfer: Transfer) -> tuple[int, ...] | None:
    digits = list(np.ndindex(*program.factors))
    boxes = program.values[transfer.inputs[0]].boxes
    reduced: set[int] = set()
    for piece in transfer.pattern.pieces:
        first_owner = piece.reads[0].owner
        for read in piece.reads:
            if boxes[read.owner] != boxes[first_owner]:
                return None
            digit_pairs = zip(digits[first_owner], digits[read.owner], strict=True)
            reduced.update(axis for axis, (first, digit) in enumerate(digit_pairs) if digit != first)
    axes = tuple(sorted(reduced))
    addend_count = prod(program.factors[axis] for axis in axes)
    for piece in transfer.pattern.pieces:
        addends = {tuple(digits[read.owner][axis] for axis in axes) for read in piece.reads}
        if not len(addends) == len(piece.reads) == addend_count:
            return None
    return axes


def find_scatters(source_layout: Sequence[int], output_layout: Layout) -> list[tuple[int, int]]:
    """Return the reduce-scatters that lead from one layout to the other, as pairs (axis, dimension)."""
    layout, scatters = list(source_layout), []
    for axis, dimension in enumerate(output_layout):
        if layout[axis] == PARTIAL and dimension != REPLICATED and _splits_in_order(layout, output_layout, axis):
            scatters.append((axis, dimension))
            layout[axis] = dimension
    return scatters


def _splits_in_order(layout: Sequence[int], output_layout: Layout, axis: int) -> bool:
    dimension = output_layout[axis]
    return dimension not in layout[axis + 1 :] and all(
        (layout[before] == dimension) == (output_layout[before] == dimension) for before in range(axis)
    )


def find_chain(
    source_layout: Layout, output_layout: Layout, factors: Sequence[int]
) -> list[Slice | AllGather | AllToAll] | None:
    """Return collectives that lead from one layout of a tensor to the other, or None if this is impossible."""
    layout, chain = list(source_layout), list[Slice | AllGather | AllToAll]()
    while tuple(layout) != output_layout:
        candidates: list[Slice | AllGather | AllToAll] = []
        for axis, (before, after) in enumerate(zip(layout, output_layout, strict=True)):
            if before == after or (before != REPLICATED and before in layout[axis + 1 :]):
                continue
            is_in_order = _splits_in_order(layout, output_layout, axis)
            if before == REPLICATED:
                candidates += [Slice(axis, after)] if is_in_order else []
            elif after != REPLICATED and is_in_order:
                candidates.append(AllToAll(axis, before, after))
            else:
                candidates.append(AllGather(axis, before))
        if not candidates:
            return None
        collective = min(candidates, key=lambda candidate: (Slice, AllToAll, AllGather).index(type(candidate)))
        chain.append(collective)
        layout[collective.axis] = REPLICATED if isinstance(collective, AllGather) else output_layout[collective.axis]
    return chain


def count_received(chain: Sequence[Slice | AllGather | AllToAll], elements: int, factors: Sequence[int]) -> float:
    """Return the number of elements that each worker receives in `chain`.

    `elements` is the number of elements that a worker has before the chain.
    """
    received = 0.0
    for collective in chain:
        factor = factors[collective.axis]
        if isinstance(collective, Slice):
            elements //= factor
        elif isinstance(collective, AllToAll):
            received += elements * (factor - 1) / factor
        else:
            received += elements * (factor - 1)
            elements *= factor
    return received


def _count_received_by_reduction(
    elements: int, scatters: Sequence[tuple[int, int]], all_reduced_axes: Sequence[int], factors: Sequence[int]
) -> float:
    received = 0.0
    for axis, _ in scatters:
        received += elements * (1 - 1 / factors[axis])
        elements //= factors[axis]
    return received + 2 * elements * (1 - 1 / prod(factors[axis] for axis in all_reduced_axes))


def find_rounds(pieces: Sequence[TransferPiece]) -> tuple[Round, ...]:
    """Group the transfers between workers into a few rounds. The transfers of a round run at the same time.

    Each worker adds partial sums in the same order. This makes the results equal to the last bit.
    """
    rounds: list[Round] = []
    kind_rounds, sending_rounds, receiving_rounds = (defaultdict[Hashable, int](int) for _ in range(3))  # bit per round
    for piece in pieces:
        first_round = 0
        for read in piece.reads:
            kind = read.input, piece.extent, read.along, read.owner == piece.reader
            busy_rounds = sending_rounds[read.owner] | receiving_rounds[piece.reader]
            free_rounds = (kind_rounds[kind] & ~busy_rounds) >> first_round
            if free_rounds:
                position = first_round + (free_rounds & -free_rounds).bit_length() - 1  # the lowest bit
            else:
                position = len(rounds)
                rounds.append(Round(*kind))
                kind_rounds[kind] |= 1 << position
            rounds[position].moves[piece.reader] = read.owner, read.begin, piece.begin
            sending_rounds[read.owner] |= 1 << position
            receiving_rounds[piece.reader] |= 1 << position
            first_round = position + 1
    return tuple(rounds)
