"""Checks that collectives compute the same arrays as the transfer that they replace, by following the boxes on each worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
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

Held: TypeAlias = tuple[Box, frozenset[tuple[int, ...]]]
"""The box that a worker holds, and the workers whose partial results are added up in it, by their digits along the reduced axes."""


def check_collectives(program: Lockstep, transfer: Transfer, collectives: Sequence[Collective]) -> None:
    """Raise InternalError if collectives compute other arrays than the transfer that they replace."""
    try:
        _check(program, transfer, collectives)
    except ValueError as error:
        name = program.graph.tensors[program.values[transfer.output].tensor].name
        listed = ", ".join(type(collective).__name__ for collective in collectives)
        raise InternalError(f"The collectives of {name} ({listed}) differ from its transfer: {error}.") from error


def _check(program: Lockstep, transfer: Transfer, collectives: Sequence[Collective]) -> None:
    exchanges = [collective for collective in collectives if isinstance(collective, Exchange)]
    if exchanges:
        wanted = [transfer.pieces, transfer.copies] if transfer.copies else [transfer.pieces]
        if len(exchanges) != len(wanted) or len(exchanges) != len(collectives):
            raise ValueError("some pieces are not sent")
        for exchange, pieces in zip(exchanges, wanted, strict=True):
            _check_exchange(exchange, pieces)
        return
    _check_pieces(program, transfer)
    digits = [tuple(map(int, index)) for index in np.ndindex(*program.factors)]
    axes = sorted({axis for collective in collectives for axis in _list_reduced(collective)})
    source = program.values[transfer.inputs[0]]
    held: list[Held] = [
        (box, frozenset([tuple(mine[axis] for axis in axes)])) for box, mine in zip(source.boxes, digits, strict=True)
    ]
    for collective in collectives:
        held = _FOLLOW[type(collective)](collective, held, program, digits)
    addends = frozenset(tuple(map(int, index)) for index in np.ndindex(*(program.factors[axis] for axis in axes)))
    for worker, (wanted_box, (box, found)) in enumerate(zip(program.values[transfer.output].boxes, held, strict=True)):
        if box != wanted_box:
            raise ValueError(f"worker {worker} has {box} instead of {wanted_box}")
        if found != addends:
            raise ValueError(f"worker {worker} has {len(found)} of {len(addends)} partial results")
    counts = {len(piece.reads) for piece in transfer.pieces}
    if counts != {len(addends)}:
        raise ValueError(f"{len(addends)} partial results are reduced, but its pieces have {sorted(counts)}")


def _check_pieces(program: Lockstep, transfer: Transfer) -> None:
    """Raise ValueError unless the pieces fill each worker's box with the tensor's elements at the same positions."""
    output = program.values[transfer.output]
    shape = program.graph.tensors[output.tensor].shape
    written = [0] * program.count
    for pieces, inputs in ((transfer.pieces, transfer.inputs), (transfer.copies, (transfer.output,))):
        for piece in pieces:
            place = _locate(output.boxes[piece.reader], piece.begin)
            for read in piece.reads:
                found = _locate(program.values[inputs[read.input]].boxes[read.owner], read.begin)
                if found != place or read.along != tuple(range(len(shape))):
                    raise ValueError(f"worker {piece.reader} reads elements from {found} on for those from {place} on")
            written[piece.reader] += prod(piece.extent)
    for worker, (count, box) in enumerate(zip(written, output.boxes, strict=True)):
        inside = [max(0, min(end, extent) - max(0, begin)) for (begin, end), extent in zip(box, shape, strict=True)]
        if count != prod(inside):
            raise ValueError(f"the pieces of worker {worker} have {count} of {prod(inside)} elements")


def _locate(box: Box, begin: Sequence[int]) -> tuple[int, ...]:
    return tuple(first + offset for (first, _), offset in zip(box, begin, strict=True))


def _check_exchange(exchange: Exchange, pieces: Sequence[TransferPiece]) -> None:
    """Raise ValueError unless the rounds of an exchange send exactly these pieces, and can run."""
    sent = Counter(
        (round_.input, owner, source, reader, target, round_.extent, round_.along)
        for round_ in exchange.rounds
        for reader, (owner, source, target) in round_.moves.items()
    )
    wanted = Counter(
        (read.input, read.owner, read.begin, piece.reader, piece.begin, piece.extent, read.along)
        for piece in pieces
        for read in piece.reads
    )
    if sent != wanted:
        raise ValueError("other pieces are sent")
    for round_ in exchange.rounds:
        owners = [owner for owner, _, _ in round_.moves.values()]
        if len(set(owners)) < len(owners) or round_.is_local != all(o == r for r, (o, _, _) in round_.moves.items()):
            raise ValueError("a worker sends twice at once, or to itself")


def _list_reduced(one: Collective) -> tuple[int, ...]:
    if isinstance(one, AllReduce):
        return one.axes
    return (one.axis,) if isinstance(one, ReduceScatter) else ()


def _list_group(worker: int, axis: int, program: Lockstep, digits: Sequence[tuple[int, ...]]) -> list[int]:
    stride = int(np.prod(program.factors[axis + 1 :], dtype=int))
    first = worker - digits[worker][axis] * stride
    return [first + n * stride for n in range(program.factors[axis])]


def _join(boxes: Sequence[Box], dimension: int) -> Box:
    """Concatenate boxes along a dimension. Raises ValueError if they are not adjacent."""
    for before, after in pairwise(boxes):
        rest = [d for d in range(len(before)) if d != dimension]
        if any(before[d] != after[d] for d in rest) or before[dimension][1] != after[dimension][0]:
            raise ValueError(f"{before} and {after} are concatenated along dimension {dimension}")
    whole = boxes[0][dimension][0], boxes[-1][dimension][1]
    return (*boxes[0][:dimension], whole, *boxes[0][dimension + 1 :])


def _cut(box: Box, dimension: int, factor: int, digit: int) -> Box:
    begin, end = box[dimension]
    if (end - begin) % factor:
        raise ValueError(f"dimension {dimension} of {box} does not have {factor} equal parts")
    return take_part(box, dimension, factor, digit)


def _add_up(held: Sequence[Held], members: Sequence[int]) -> Held:
    """Reduce partial results. Raises ValueError if their boxes differ, or an addend occurs twice."""
    boxes = {held[member][0] for member in members}
    addends = [addend for member in members for addend in held[member][1]]
    if len(boxes) > 1 or len(set(addends)) < len(addends):
        raise ValueError(f"partial results of {boxes} are reduced; {len(set(addends))} of {len(addends)} differ")
    return next(iter(boxes)), frozenset(addends)


def _slice(one: Slice, held: list[Held], program: Lockstep, digits: list[tuple[int, ...]]) -> list[Held]:
    factor = program.factors[one.axis]
    return [
        (_cut(box, one.dimension, factor, mine[one.axis]), addends)
        for (box, addends), mine in zip(held, digits, strict=True)
    ]


def _gather(one: AllGather, held: list[Held], program: Lockstep, digits: list[tuple[int, ...]]) -> list[Held]:
    groups = (_list_group(worker, one.axis, program, digits) for worker in range(len(held)))
    return [(_join([held[member][0] for member in group], one.dimension), held[group[0]][1]) for group in groups]


def _exchange(one: AllToAll, held: list[Held], program: Lockstep, digits: list[tuple[int, ...]]) -> list[Held]:
    factor, found = program.factors[one.axis], []
    for worker in range(len(held)):
        group = _list_group(worker, one.axis, program, digits)
        parts = [_cut(held[member][0], one.split, factor, digits[worker][one.axis]) for member in group]
        found.append((_join(parts, one.gathered), held[worker][1]))
    return found


def _scatter(one: ReduceScatter, held: list[Held], program: Lockstep, digits: list[tuple[int, ...]]) -> list[Held]:
    found = []
    for worker in range(len(held)):
        box, addends = _add_up(held, _list_group(worker, one.axis, program, digits))
        found.append((_cut(box, one.dimension, program.factors[one.axis], digits[worker][one.axis]), addends))
    return found


def _reduce(one: AllReduce, held: list[Held], program: Lockstep, digits: list[tuple[int, ...]]) -> list[Held]:
    for axis in one.axes:
        held = [_add_up(held, _list_group(worker, axis, program, digits)) for worker in range(len(held))]
    return held


_FOLLOW: dict[type, Callable[..., list[Held]]] = {
    Slice: _slice,
    AllGather: _gather,
    AllToAll: _exchange,
    ReduceScatter: _scatter,
    AllReduce: _reduce,
}
