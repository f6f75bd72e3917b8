"""Axes whose parts may overlap: how an engine that needs equal parts splits what has none.

Of extent 10 in 3 parts of 4 cells each, the parts are [0, 4), [3, 7) and [6, 10): each is rounded up, and has the first cell of the next
one as well. All cells are those of the tensor, so that nothing needs padding; what two workers compute of a result is the same. A
reduction must count a cell once: of what it reads, cells that the next part has are replaced by what changes nothing.
"""

from __future__ import annotations

from tofu.analysis.access import Combine, OperatorAccess, Row

NEUTRAL = {"Sum": 0, "Prod": 1}
"""What stands for a cell that another part counts. A maximum or a minimum may count it twice."""


def find_uneven_axes(access: OperatorAccess) -> tuple[int, ...]:
    """The axes, by number, whose parts may overlap.

    Where a result is added up, the cells that are counted twice must be plain ones: lines of each input across the axis. Regions that
    overlap by themselves (windows, and gradients of windows) have none. Zeros in their place must add nothing to a sum, which is not
    known of an opaque function.
    """
    return tuple(axis for axis in range(len(access.axes)) if _may_overlap(access, axis))


def find_neutral(access: OperatorAccess, axis: int) -> int | None:
    """What stands for a cell that the next part of `axis` has as well; None where it may be read twice."""
    found = {NEUTRAL.get(one.reducer) for one in access.outputs if one.combine[axis] is Combine.REDUCE}
    return next((number for number in found if number is not None), None)


def find_dimension(rows: tuple[Row, ...], axis: int) -> int | None:
    """The dimension along which cells follow each other as the positions of an axis do; None where there is none."""
    return next((d for d, row in enumerate(rows) if row == Row(((axis, 1),), 0, 1)), None)


def _may_overlap(access: OperatorAccess, axis: int) -> bool:
    combined = [one.combine[axis] for one in access.outputs]
    if Combine.OVERLAP_ADD in combined:
        return False
    if find_neutral(access, axis) is None:
        return True
    if not all(one.has_zero_terms for one in access.outputs if one.reducer == "Sum"):
        return False
    reducers = {one.reducer for one in access.outputs}
    moved = [one.rows for one in access.inputs if any(axis == moving for row in one.rows for moving, _ in row.terms)]
    are_plain = all(
        find_dimension(rows, axis) is not None and sum(a == axis for row in rows for a, _ in row.terms) == 1
        for rows in moved
    )
    return set(combined) == {Combine.REDUCE} and len(reducers) == 1 and bool(moved) and are_plain
