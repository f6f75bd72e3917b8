"""Checks that collectives compute the same arrays as the transfer that they replace.

The check follows the region of a tensor on each worker (`WorkerBox`) through the collectives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import TypeAlias

import numpy as np

from tofu.errors import InternalError
from tofu.program.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    Collective,
    Exchange,
    ReduceScatter,
    Slice,
    take_part,
)
from tofu.program.lockstep import Box, Lockstep, Transfer, TransferPiece

WorkerBox: TypeAlias = tuple[Box, frozenset[tuple[int, ...]]]
"""The region of a tensor that a worker has, and the workers whose partial results are added in it.

A worker is identified by its positions along the reduced axes of the mesh.
"""


class _Mesh:
    def __init__(self, factors: Sequence[int]) -> None:
        self.factors = factors
        self.digits = [tuple(map(int, index)) for index in np.ndindex(*factors)]

    def list_groups(self, axis: int) -> Iterator[list[int]]:
        stride, factor = prod(self.factors[axis + 1 :]), self.factors[axis]
        for worker, digits in enumerate(self.digits):
            first = worker - digits[axis] * stride
            yield [first + n * stride for n in range(factor)]

    def cut(self, box: Box, dimension: int, axis: int, worker: int) -> Box:
        (begin, end), factor = box[dimension], self.factors[axis]
        if (end - begin) % factor:
            raise ValueError(f"dimension {dimension} of {box} does not have {factor} equal parts")
        return take_part(box, dimension, factor, self.digits[worker][axis])


def check_collectives(program: Lockstep, transfer: Transfer, collectives: Sequence[Collective]) -> None:
    """Raise InternalError if `collectives` do not compute the same arrays as `transfer`."""
    try:
        _check(program, transfer, collectives)
    except ValueError as error:
        name = program.graph.tensors[program.values[transfer.output].tensor].name
        listed = ", ".join(type(collective).__name__ for collective in collectives)
        raise InternalError(f"The collectives of {name} ({listed}) differ from its transfer: {error}.") from error


def _check(program: Lockstep, transfer: Transfer, collectives: Sequence[Collective]) -> None:
    exchanges = [collective for collective in collectives if isinstance(collective, Exchange)]
    if exchanges:
        pattern = transfer.pattern
        all_pieces = [pattern.pieces, *([pattern.copies] if pattern.copies else [])]
        if len(exchanges) != len(all_pieces) or len(exchanges) != len(collectives):
            raise ValueError("some pieces are not sent")
        for exchange, pieces in zip(exchanges, all_pieces, strict=True):
            _check_exchange(exchange, pieces)
        return
    _check_pieces(program, transfer)
    mesh = _Mesh(program.factors)
    reduced_axes = sorted({axis for collective in collectives for axis in _list_reduced_axes(collective)})
    source_boxes = program.values[transfer.inputs[0]].boxes
    worker_boxes: list[WorkerBox] = [
        (box, frozenset([tuple(worker_digits[axis] for axis in reduced_axes)]))
        for box, worker_digits in zip(source_boxes, mesh.digits, strict=True)
    ]
    for collective in collectives:
        worker_boxes = _FOLLOW[type(collective)](collective, worker_boxes, mesh)
    all_addends = {tuple(digits[axis] for axis in reduced_axes) for digits in mesh.digits}
    output_boxes = program.values[transfer.output].boxes
    for worker, (output_box, (box, addends)) in enumerate(zip(output_boxes, worker_boxes, strict=True)):
        if box != output_box:
            raise ValueError(f"worker {worker} has {box} instead of {output_box}")
        if addends != all_addends:
            raise ValueError(f"worker {worker} has {len(addends)} of {len(all_addends)} partial results")
    addend_counts = {len(piece.reads) for piece in transfer.pattern.pieces}
    if addend_counts != {len(all_addends)}:
        raise ValueError(f"{len(all_addends)} partial results are reduced, but its pieces have {sorted(addend_counts)}")


def _check_pieces(program: Lockstep, transfer: Transfer) -> None:
    output = program.values[transfer.output]
    shape = program.graph.tensors[output.tensor].shape
    written_elements = [0] * program.count
    for pieces, inputs in ((transfer.pattern.pieces, transfer.inputs), (transfer.pattern.copies, (transfer.output,))):
        for piece in pieces:
            position = _locate(output.boxes[piece.reader], piece.begin)
            for read in piece.reads:
                read_position = _locate(program.values[inputs[read.input]].boxes[read.owner], read.begin)
                if read_position != position or read.along != tuple(range(len(shape))):
                    raise ValueError(
                        f"worker {piece.reader} reads elements from {read_position} on for those from {position} on"
                    )
            written_elements[piece.reader] += prod(piece.extent)
    for worker, (count, box) in enumerate(zip(written_elements, output.boxes, strict=True)):
        extents_inside = [
            max(0, min(end, extent) - max(0, begin)) for (begin, end), extent in zip(box, shape, strict=True)
        ]
        if count != prod(extents_inside):
            raise ValueError(f"the pieces of worker {worker} have {count} of {prod(extents_inside)} elements")


def _locate(box: Box, begin: Sequence[int]) -> tuple[int, ...]:
    return tuple(first + offset for (first, _), offset in zip(box, begin, strict=True))


def _check_exchange(exchange: Exchange, pieces: Sequence[TransferPiece]) -> None:
    sent_boxes = Counter(
        (round_.input, owner, source, reader, target, round_.extent, round_.along)
        for round_ in exchange.rounds
        for reader, (owner, source, target) in round_.moves.items()
    )
    piece_boxes = Counter(
        (read.input, read.owner, read.begin, piece.reader, piece.begin, piece.extent, read.along)
        for piece in pieces
        for read in piece.reads
    )
    if sent_boxes != piece_boxes:
        raise ValueError("other pieces are sent")
    for round_ in exchange.rounds:
        owners = [owner for owner, _, _ in round_.moves.values()]
        if len(set(owners)) < len(owners) or round_.is_local != (owners == list(round_.moves)):
            raise ValueError("a worker sends twice at once, or to itself")


def _list_reduced_axes(collective: Collective) -> tuple[int, ...]:
    if isinstance(collective, AllReduce):
        return collective.axes
    return (collective.axis,) if isinstance(collective, ReduceScatter) else ()


def _concatenate(boxes: Sequence[Box], dimension: int) -> Box:
    for before, after in pairwise(boxes):
        other_dimensions = [d for d in range(len(before)) if d != dimension]
        if any(before[d] != after[d] for d in other_dimensions) or before[dimension][1] != after[dimension][0]:
            raise ValueError(f"{before} and {after} are concatenated along dimension {dimension}")
    joined_interval = boxes[0][dimension][0], boxes[-1][dimension][1]
    return (*boxes[0][:dimension], joined_interval, *boxes[0][dimension + 1 :])


def _reduce_boxes(worker_boxes: Sequence[WorkerBox], workers: Sequence[int]) -> WorkerBox:
    boxes = {worker_boxes[worker][0] for worker in workers}
    addends = [addend for worker in workers for addend in worker_boxes[worker][1]]
    if len(boxes) > 1 or len(set(addends)) < len(addends):
        raise ValueError(f"partial results of {boxes} are reduced; {len(set(addends))} of {len(addends)} differ")
    return next(iter(boxes)), frozenset(addends)


def _slice(collective: Slice, worker_boxes: list[WorkerBox], mesh: _Mesh) -> list[WorkerBox]:
    return [
        (mesh.cut(box, collective.dimension, collective.axis, worker), addends)
        for worker, (box, addends) in enumerate(worker_boxes)
    ]


def _gather(collective: AllGather, worker_boxes: list[WorkerBox], mesh: _Mesh) -> list[WorkerBox]:
    gathered = []
    for group in mesh.list_groups(collective.axis):
        boxes = [worker_boxes[worker][0] for worker in group]
        gathered.append((_concatenate(boxes, collective.dimension), worker_boxes[group[0]][1]))
    return gathered


def _exchange(collective: AllToAll, worker_boxes: list[WorkerBox], mesh: _Mesh) -> list[WorkerBox]:
    exchanged = []
    for reader, group in enumerate(mesh.list_groups(collective.axis)):
        parts = [mesh.cut(worker_boxes[owner][0], collective.split, collective.axis, reader) for owner in group]
        exchanged.append((_concatenate(parts, collective.gathered), worker_boxes[reader][1]))
    return exchanged


def _scatter(collective: ReduceScatter, worker_boxes: list[WorkerBox], mesh: _Mesh) -> list[WorkerBox]:
    reduced = [_reduce_boxes(worker_boxes, group) for group in mesh.list_groups(collective.axis)]
    return _slice(Slice(collective.axis, collective.dimension), reduced, mesh)


def _reduce(collective: AllReduce, worker_boxes: list[WorkerBox], mesh: _Mesh) -> list[WorkerBox]:
    for axis in collective.axes:
        worker_boxes = [_reduce_boxes(worker_boxes, group) for group in mesh.list_groups(axis)]
    return worker_boxes


_FOLLOW: dict[type, Callable[..., list[WorkerBox]]] = {
    Slice: _slice,
    AllGather: _gather,
    AllToAll: _exchange,
    ReduceScatter: _scatter,
    AllReduce: _reduce,
}
