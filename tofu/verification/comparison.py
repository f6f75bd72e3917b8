"""What of a kernel's results was compared, and with what: an output that nothing would notice the loss of counts for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from tofu.verification.kernel import Array
from tofu.verification.split import relative_error

Relation: TypeAlias = "Callable[[Sequence[Array], Sequence[Array]], Sequence[Array | None]]"
"""The outputs of a node as they should be, from its inputs and from what the kernel gave; None for one that it leaves unwritten."""


MOST_CELLS_CHANGED = 12
"""Of an output, to see whether a relation notices."""


class Compared(IntEnum):
    """With what, the strongest first."""

    NUMBERS = 1  # of the description, executed with NumPy
    RELATION = 2  # between what is drawn and what is computed from it
    PARTS = 3  # of the kernel itself, put together
    UNWRITTEN = 4  # memory that the kernel leaves as it is, or writes zeros to
    NOTHING = 5

    def __str__(self) -> str:
        return _SAID[self]


_SAID = {
    Compared.NUMBERS: "numbers",
    Compared.RELATION: "a relation",
    Compared.PARTS: "parts",
    Compared.UNWRITTEN: "left unwritten",
    Compared.NOTHING: "nothing",
}


@dataclass(frozen=True)
class Comparison:
    """So many cells of one output, compared in one way."""

    output: int
    kind: Compared
    cells: int


def find_kind(comparisons: Iterable[Comparison]) -> Compared:
    """The weakest way in which an output was compared, those without numbers aside where there are others."""
    kinds = {one.kind for one in comparisons if one.cells}
    return max(kinds - {Compared.UNWRITTEN}, default=Compared.UNWRITTEN if kinds else Compared.NOTHING)


def count_numbers(expected: Array, output: Array) -> int:
    """The cells in which two arrays of numbers can differ: not those where both have none."""
    return int(output.size - (np.isnan(expected) & np.isnan(output)).sum()) if output.dtype.kind == "f" else output.size


def find_overwritten(output: Array, left: Array) -> int:
    """The cells of an output called unwritten that the kernel writes something to but zero."""
    return int((~left & (output != 0)).sum())


def count_related(
    relation: Relation, inputs: Sequence[Array], outputs: Sequence[Array], number: int, tolerance: float
) -> int:
    """The cells of output `number` of which the relation notices a change, each alone; estimated from some of them, evenly spread."""
    size = outputs[number].size
    tried = np.unique(np.linspace(0, size - 1, MOST_CELLS_CHANGED).astype(int)) if size else []
    noticed = sum(_is_noticed(relation, inputs, _change_cell(outputs, number, cell), tolerance) for cell in tried)
    return -(-size * noticed // max(1, len(tried)))


def find_mismatches(expected: Sequence[Array | None], outputs: Sequence[Array], tolerance: float) -> dict[int, float]:
    """The relative errors of those outputs that are off by more than `tolerance`."""
    pairs = enumerate(zip(expected, outputs, strict=True))
    errors = {n: relative_error(value, output) for n, (value, output) in pairs if value is not None}
    return {n: error for n, error in errors.items() if not error <= tolerance}


def _is_noticed(relation: Relation, inputs: Sequence[Array], outputs: Sequence[Array], tolerance: float) -> bool:
    return bool(find_mismatches(relation(inputs, outputs), outputs, tolerance))


def _change_cell(outputs: Sequence[Array], number: int, cell: int) -> list[Array]:
    """The outputs with another number in one cell, larger than all."""
    changed = outputs[number].copy()
    finite = np.abs(changed[np.isfinite(changed)].astype(float))
    changed.reshape(-1)[cell] = np.asarray(2 * finite.max(initial=0.0) + 3).astype(changed.dtype)
    return [changed if n == number else output for n, output in enumerate(outputs)]
