"""What moves from worker to worker, box by box: whom each reads which cells from, and which of these boxes move at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np

from tofu.jax.backend.places import Box, Place

Pair: TypeAlias = tuple[int, int]


class Piece(NamedTuple):
    """A box of cells that `reader` takes from `owner`."""

    owner: int
    reader: int
    box: Box


@dataclass(frozen=True)
class Round:
    """Boxes of one size that move at once, or stay on their workers. `by_reader`: (owner, where it begins there, where here)."""

    size: tuple[int, ...]
    is_local: bool
    by_reader: dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]]

    @property
    def sent(self) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        """By reader: (reader, owner, where the box begins there)."""
        return tuple((reader, owner, source) for reader, (owner, source, _) in sorted(self.by_reader.items()))


def find_nearest(held: Place, wanted: Sequence[Box], factors: Sequence[int]) -> list[Piece]:
    """Whom each worker takes what from: of several with the same cells itself, or the nearest."""
    owners: dict[Box, list[int]] = {}
    for worker, box in enumerate(held.owned):
        owners.setdefault(box, []).append(worker)
    digits = list(np.ndindex(*factors))
    common = [[sum(a == b for a, b in zip(one, other, strict=True)) for other in digits] for one in digits]
    pairs = (
        (max(same, key=lambda owner: (common[owner][reader], owner == reader)), reader)
        for reader in range(len(wanted))
        for same in owners.values()
    )
    return list(cut(pairs, held, wanted))


def cut(
    pairs: Iterator[Pair] | Sequence[Pair], held: Place, wanted: Sequence[Box], of: Sequence[int] = ()
) -> Iterator[Piece]:
    """The pieces of what owners have of what readers want. Where parts overlap, a reader takes of its own part all, and of others what it
    has not itself.

    `of`: by worker, the number of the addend that it has a part of; parts of one addend make up one tensor.
    """
    for owner, reader in pairs:
        own = held.boxes[owner] if owner == reader else held.owned[owner]
        box = meet(own, wanted[reader])
        if box is None:
            continue
        is_cut = held.overlaps and owner != reader and (not of or of[owner] == of[reader])
        for rest in _subtract(box, held.boxes[reader]) if is_cut else [box]:
            yield Piece(owner, reader, rest)


def find_rounds(held: Sequence[Box], wanted: Sequence[Box], pieces: Sequence[Piece]) -> list[Round]:
    """The pieces in as few rounds as they fit into one after the other: in each a worker is once an owner and once a reader."""
    rounds: list[Round] = []
    for owner, reader, box in pieces:
        size = tuple(end - begin for begin, end in box)
        source, target = (
            tuple(b - first for (b, _), (first, _) in zip(box, place, strict=True))
            for place in (held[owner], wanted[reader])
        )
        for known in rounds:
            is_free = reader not in known.by_reader and all(owner != other for other, _, _ in known.by_reader.values())
            if known.size == size and known.is_local == (owner == reader) and is_free:
                known.by_reader[reader] = owner, source, target
                break
        else:
            rounds.append(Round(size, owner == reader, {reader: (owner, source, target)}))
    return rounds


def count_moved(pieces: Sequence[Piece]) -> int:
    """The cells that move."""
    return sum(prod(end - begin for begin, end in box) for owner, reader, box in pieces if owner != reader)


def shift(box: Box, distance: Sequence[int]) -> Box:
    """A box, so much further on."""
    return tuple((begin + n, end + n) for (begin, end), n in zip(box, distance, strict=True))


def meet(one: Box, other: Box) -> Box | None:
    """The cells that two boxes have in common."""
    box = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return box if all(begin < end for begin, end in box) else None


def _subtract(box: Box, other: Box) -> Iterator[Box]:
    """What is left of a box without the cells of another one: in each dimension what lies before it, then what lies behind."""
    inner = meet(box, other)
    if inner is None:
        yield box
        return
    rest = list(box)
    for d, (begin, end) in enumerate(inner):
        first, last = rest[d]
        for part in ((first, begin), (end, last)):
            if part[0] < part[1]:
                yield (*rest[:d], part, *rest[d + 1 :])
        rest[d] = begin, end
