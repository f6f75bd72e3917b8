"""Axes whose parts may overlap, for engines that need equal parts of extents that do not divide.

An extent of 10 in 3 parts of 4 elements gives [0, 4), [3, 7) and [6, 10): each part is rounded up, and also has the
first element of the next one. All elements belong to the tensor, so nothing is padded, and elements that two workers
compute are equal. A reduction must count each element once: elements that the next part has are replaced by a neutral
number.
"""

from __future__ import annotations

from tofu.analysis.access import Combine, OperatorAccess, Row

NEUTRAL = {"Sum": 0, "Prod": 1}
"""Replaces an element that another part counts. A maximum or a minimum may count it twice."""


def find_uneven_axes(access: OperatorAccess) -> tuple[int, ...]:
    """Return the numbers of the axes whose parts may overlap.

    If a result is summed, the elements counted twice must be plain: lines of each input across the axis. Regions that
    overlap by themselves (windows, and gradients of windows) have none. Zeros in their place must add nothing to a sum,
    which is unknown for an opaque function.
    """
    return tuple(axis for axis in range(len(access.axes)) if _may_overlap(access, axis))


def find_neutral(access: OperatorAccess, axis: int) -> int | None:
    """Return the number that replaces an element that the next part of `axis` has, too; None if it may be read twice."""
    found = {NEUTRAL.get(output.reducer) for output in access.outputs if output.combine[axis] is Combine.REDUCE}
    return next((number for number in found if number is not None), None)


def find_dimension(rows: tuple[Row, ...], axis: int) -> int | None:
    """Return the dimension whose elements follow the positions of an axis; None without one."""
    return next((d for d, row in enumerate(rows) if row == Row(((axis, 1),), 0, 1)), None)


def _may_overlap(access: OperatorAccess, axis: int) -> bool:
    combined = [output.combine[axis] for output in access.outputs]
    if Combine.OVERLAP_ADD in combined:
        return False
    if find_neutral(access, axis) is None:
        return True
    if not all(output.has_zero_terms for output in access.outputs if output.reducer == "Sum"):
        return False
    reducers = {output.reducer for output in access.outputs}
    moved = [read.rows for read in access.inputs if any(axis == moving for row in read.rows for moving, _ in row.terms)]
    are_plain = all(
        find_dimension(rows, axis) is not None and sum(a == axis for row in rows for a, _ in row.terms) == 1
        for rows in moved
    )
    return set(combined) == {Combine.REDUCE} and len(reducers) == 1 and bool(moved) and are_plain
