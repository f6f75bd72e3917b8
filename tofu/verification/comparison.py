"""Count how many elements of each output were compared, and in which way.

An output counts only if an error in it would be noticed.
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
"""Function that takes an operator's inputs and outputs, and returns the expected outputs; None for unwritten outputs."""


MOST_CHANGED_ELEMENTS = 12
"""Number of elements of an output that are changed, one by one, to see how many errors a relation notices."""


class Compared(IntEnum):
    """Ways to compare an operator's output, the most reliable first."""

    NUMBERS = 1  # the description, computed with NumPy
    RELATION = 2  # a relation that must hold between inputs and outputs
    PARTS = 3  # the kernel's results on parts, combined
    UNWRITTEN = 4  # unwritten memory, which the kernel leaves unchanged or fills with zeros
    NOTHING = 5

    def __str__(self) -> str:
        return _NAMES[self]


_NAMES = {
    Compared.NUMBERS: "numbers",
    Compared.RELATION: "a relation",
    Compared.PARTS: "parts",
    Compared.UNWRITTEN: "left unwritten",
    Compared.NOTHING: "nothing",
}


@dataclass(frozen=True)
class Comparison:
    """Number of output elements (`cells`) that were compared in one way (`kind`)."""

    output: int
    kind: Compared
    cells: int


def find_kind(comparisons: Iterable[Comparison]) -> Compared:
    """Return how elements were compared. If there were several ways, return the least reliable.

    Elements that the kernel leaves unwritten count only if there are no other elements.
    """
    kinds = {comparison.kind for comparison in comparisons if comparison.cells}
    return max(kinds - {Compared.UNWRITTEN}, default=Compared.UNWRITTEN if kinds else Compared.NOTHING)


def count_numbers(expected: Array, output: Array) -> int:
    """Count the elements, except those that are NaN in both arrays."""
    return int(output.size - (np.isnan(expected) & np.isnan(output)).sum()) if output.dtype.kind == "f" else output.size


def count_overwritten(output: Array, left: Array) -> int:
    """Count the nonzero elements that a kernel wrote to an output, although it should write none.

    `left` is True for elements that the kernel did not write.
    """
    return int((~left & (output != 0)).sum())


def count_related(
    relation: Relation, inputs: Sequence[Array], outputs: Sequence[Array], number: int, tolerance: float
) -> int:
    """Estimate the number of elements of output `number` in which `relation` would reveal an error."""
    size = outputs[number].size
    changed_elements = np.unique(np.linspace(0, size - 1, MOST_CHANGED_ELEMENTS).astype(int)) if size else []
    noticed_count = sum(
        _is_noticed(relation, inputs, _change_cell(outputs, number, cell), tolerance) for cell in changed_elements
    )
    return -(-size * noticed_count // max(1, len(changed_elements)))


def find_mismatches(expected: Sequence[Array | None], outputs: Sequence[Array], tolerance: float) -> dict[int, float]:
    """Return {output number: relative error} for all outputs with an error above `tolerance`."""
    pairs = enumerate(zip(expected, outputs, strict=True))
    errors = {n: relative_error(value, output) for n, (value, output) in pairs if value is not None}
    return {n: error for n, error in errors.items() if not error <= tolerance}


def _is_noticed(relation: Relation, inputs: Sequence[Array], outputs: Sequence[Array], tolerance: float) -> bool:
    return bool(find_mismatches(relation(inputs, outputs), outputs, tolerance))


def _change_cell(outputs: Sequence[Array], number: int, cell: int) -> list[Array]:
    changed = outputs[number].copy()
    finite_magnitudes = np.abs(changed[np.isfinite(changed)].astype(float))
    changed.reshape(-1)[cell] = np.asarray(2 * finite_magnitudes.max(initial=0.0) + 3).astype(changed.dtype)
    return [changed if n == number else output for n, output in enumerate(outputs)]
