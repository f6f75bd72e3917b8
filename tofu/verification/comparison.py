"""References of comparisons: the numbers, relations or parts with which each output of a kernel was compared.

An output that could change unnoticed counts as compared with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from tofu.verification.kernel import Array
from tofu.verification.split import relative_error

Relation: TypeAlias = "Callable[[Sequence[Array], Sequence[Array]], Sequence[Array | None]]"
"""Returns a node's expected outputs from its inputs and the kernel's outputs; None for outputs that it leaves unwritten."""


MOST_CHANGED_ELEMENTS = 12
"""Elements of an output that are changed, to test whether a relation notices."""


class Compared(IntEnum):
    """Reference of a comparison, the strongest first."""

    NUMBERS = 1  # of the description, computed with NumPy
    RELATION = 2  # between inputs and outputs
    PARTS = 3  # of the kernel itself, combined
    UNWRITTEN = 4  # memory that the kernel leaves unchanged, or fills with zeros
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
    """Number of elements of one output that were compared in one way."""

    output: int
    kind: Compared
    cells: int


def find_kind(comparisons: Iterable[Comparison]) -> Compared:
    """Return the weakest way in which an output was compared, ignoring unwritten outputs if there are others."""
    kinds = {comparison.kind for comparison in comparisons if comparison.cells}
    return max(kinds - {Compared.UNWRITTEN}, default=Compared.UNWRITTEN if kinds else Compared.NOTHING)


def count_numbers(expected: Array, output: Array) -> int:
    """Return the number of elements in which two arrays can differ: all but those that are NaN in both."""
    return int(output.size - (np.isnan(expected) & np.isnan(output)).sum()) if output.dtype.kind == "f" else output.size


def find_overwritten(output: Array, left: Array) -> int:
    """Return the number of elements of an unwritten output into which the kernel writes anything but zero."""
    return int((~left & (output != 0)).sum())


def count_related(
    relation: Relation, inputs: Sequence[Array], outputs: Sequence[Array], number: int, tolerance: float
) -> int:
    """Return the number of elements of output `number` whose change the relation notices, estimated from an even sample."""
    size = outputs[number].size
    tried = np.unique(np.linspace(0, size - 1, MOST_CHANGED_ELEMENTS).astype(int)) if size else []
    noticed = sum(_is_noticed(relation, inputs, _change_cell(outputs, number, cell), tolerance) for cell in tried)
    return -(-size * noticed // max(1, len(tried)))


def find_mismatches(expected: Sequence[Array | None], outputs: Sequence[Array], tolerance: float) -> dict[int, float]:
    """Return the relative errors of the outputs that are off by more than `tolerance`."""
    pairs = enumerate(zip(expected, outputs, strict=True))
    errors = {n: relative_error(value, output) for n, (value, output) in pairs if value is not None}
    return {n: error for n, error in errors.items() if not error <= tolerance}


def _is_noticed(relation: Relation, inputs: Sequence[Array], outputs: Sequence[Array], tolerance: float) -> bool:
    return bool(find_mismatches(relation(inputs, outputs), outputs, tolerance))


def _change_cell(outputs: Sequence[Array], number: int, cell: int) -> list[Array]:
    changed = outputs[number].copy()
    finite = np.abs(changed[np.isfinite(changed)].astype(float))
    changed.reshape(-1)[cell] = np.asarray(2 * finite.max(initial=0.0) + 3).astype(changed.dtype)
    return [changed if n == number else output for n, output in enumerate(outputs)]
