"""Axes that can be split into overlapping parts, for frameworks in which all parts must have the same length.

For example, a length of 10 is split over 3 workers into [0, 4), [3, 7) and [6, 10). Elements 3 and 6 are each on two
workers. A sum must count such an element once. So the worker with the earlier part replaces it by zero.
"""

from __future__ import annotations

from tofu.analysis.access import Combine, OperatorAccess, Row

NEUTRAL = {"Sum": 0, "Prod": 1}
"""For a sum or product, the number that changes nothing. A maximum or minimum may use an element twice."""


def find_uneven_axes(access: OperatorAccess) -> tuple[int, ...]:
    """Return the axes that can be split into overlapping parts, as positions in `access.axes`."""
    return tuple(axis for axis in range(len(access.axes)) if _may_overlap(access, axis))


def find_neutral(access: OperatorAccess, axis: int) -> int | None:
    """Return the number that replaces duplicate elements: 0 for a sum, 1 for a product.

    Elements are duplicate if the parts of two workers overlap. Return None if duplicates do not change the result, as
    for a maximum.
    """
    neutral_numbers = {
        NEUTRAL.get(output.reducer) for output in access.outputs if output.combine[axis] is Combine.REDUCE
    }
    return next((number for number in neutral_numbers if number is not None), None)


def find_dimension(rows: tuple[Row, ...], axis: int) -> int | None:
    """Return the dimension whose index is just the variable `axis`, or None."""
    return next((d for d, row in enumerate(rows) if row == Row(((axis, 1),), 0, 1)), None)


def _may_overlap(access: OperatorAccess, axis: int) -> bool:
    combines = [output.combine[axis] for output in access.outputs]
    if Combine.OVERLAP_ADD in combines:
        return False
    if find_neutral(access, axis) is None:
        return True
    if not all(output.has_zero_terms for output in access.outputs if output.reducer == "Sum"):
        return False
    reducers = {output.reducer for output in access.outputs}
    rows_by_moved_input = [
        read.rows for read in access.inputs if any(axis == moving for row in read.rows for moving, _ in row.terms)
    ]
    are_plain = all(
        find_dimension(rows, axis) is not None and sum(a == axis for row in rows for a, _ in row.terms) == 1
        for rows in rows_by_moved_input
    )
    return set(combines) == {Combine.REDUCE} and len(reducers) == 1 and bool(rows_by_moved_input) and are_plain
