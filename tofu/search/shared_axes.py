"""Common axes for operators that must be split in the same way.

The smaller operators that replace an operator of the model (its *parts*) must be split alike. A forward operator and
the gradient that uses its state must also be split alike. Such operators get the same axes in the same order. Axes of
parts are renamed after the dimensions of the whole operator. An operator that lacks an axis is replicated along it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tofu.analysis import Absent, Combine, OperatorAccess, Row
from tofu.graph import Graph, Operator

DimensionNames = tuple[tuple[str, ...], ...]


def share_axes(graph: Graph, accesses: Sequence[OperatorAccess]) -> tuple[OperatorAccess, ...]:
    """Return new accesses. Operators that must be split in the same way get equal axes, such as ("b", "c")."""
    groups = [members for members in _group(graph) if len(members) > 1]
    shared = list(accesses)
    aligned: dict[tuple[int, tuple[tuple[str, int], ...]], OperatorAccess] = {}
    for members in groups:
        lead = next(m for m in members if not graph.operators[m].is_inner)
        known: dict[str, int] = {}
        for member in (lead, *members):
            for axis, extent in zip(accesses[member].axes, accesses[member].extents, strict=True):
                known.setdefault(axis, extent)
        common = {
            axis: extent
            for axis, extent in known.items()
            if all(_can_take(axis, extent, graph.operators[m], accesses[m], accesses[lead]) for m in members)
        }
        for member in members:
            key = id(accesses[member]), tuple(common.items())
            if key not in aligned:
                aligned[key] = restrict_axes(_add_missing_axes(accesses[member], common), list(common))
            shared[member] = aligned[key]
    return tuple(shared)


def _group(graph: Graph) -> list[list[int]]:
    first: list[int] = []
    members: dict[int, list[int]] = {}
    for position, operator in enumerate(graph.operators):
        before = operator.leader
        if before is None and operator.stateful:
            before = operator.forward
        first.append(position if before is None else first[before])
        members.setdefault(first[position], []).append(position)
    return list(members.values())


def _can_take(axis: str, extent: int, operator: Operator, access: OperatorAccess, lead: OperatorAccess) -> bool:
    if axis in access.outer_axes:
        return False
    if axis not in access.axes:
        return bool(operator.dimension_names)
    is_fetched_before = operator.stateful and operator.leader is None and axis in lead.fetched_axes
    return access.extents[access.axes.index(axis)] == extent and (not is_fetched_before or axis in access.fetched_axes)


def _add_missing_axes(access: OperatorAccess, axes: Mapping[str, int]) -> OperatorAccess:
    added = [axis for axis in axes if axis not in access.axes]
    if not added:
        return access
    copies = (Combine.REPLICATE,) * len(added)
    return replace(
        access,
        axes=(*access.axes, *added),
        extents=(*access.extents, *(axes[axis] for axis in added)),
        outputs=tuple(replace(written, combine=(*written.combine, *copies)) for written in access.outputs),
        elementwise=False,
    )


def name_axes(access: OperatorAccess, names: DimensionNames) -> OperatorAccess:
    """Rename the axes of an operator after the dimensions that they index.

    `names` has the dimensions of the inputs, then of the outputs. Axes without a unique name are dropped.
    """
    access = without_nested_axes(access)
    found: list[set[str]] = [set() for _ in access.axes]
    rows_of_tensors = [tensor.rows for tensor in access.inputs] + [tensor.rows for tensor in access.outputs]
    for rows, dimensions in zip(rows_of_tensors, names, strict=True):
        for row, name in zip(rows, dimensions, strict=True):
            for axis, _ in row.terms:
                found[axis] |= {name} - {""}
    named = {axis: moved.pop() for axis, moved in zip(access.axes, found, strict=True) if len(moved) == 1}
    unique = {axis: name for axis, name in named.items() if list(named.values()).count(name) == 1}
    kept = restrict_axes(access, [axis for axis in access.axes if axis in unique])
    return replace(
        kept,
        axes=tuple(unique[axis] for axis in kept.axes),
        fetched_axes=tuple(unique[axis] for axis in kept.fetched_axes),
        description_names={name: axis for axis, name in unique.items()},
    )


def without_nested_axes(access: OperatorAccess) -> OperatorAccess:
    """Drop the axes that can be split only after another axis is split."""
    return restrict_axes(access, [axis for axis in access.axes if axis not in access.outer_axes])


def restrict_axes(access: OperatorAccess, axes: Sequence[str]) -> OperatorAccess:
    """Return the operator with only the axes in `axes`, in this order.

    An axis is also dropped if one of its outer axes (`OperatorAccess.outer_axes`) is not in `axes`.
    """
    axes = [axis for axis in axes if set(axes).issuperset(access.outer_axes.get(axis, ()))]
    position = {access.axes.index(axis): new for new, axis in enumerate(axes)}

    def restrict(rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(_restrict_row(row, position, access.extents) for row in rows)

    def restrict_absent(absent: Absent | None) -> Absent | None:
        return None if absent is None else absent._replace(row=_restrict_row(absent.row, position, access.extents))

    return replace(
        access,
        axes=tuple(axes),
        fetched_axes=tuple(axis for axis in axes if axis in access.fetched_axes),
        outer_axes={axis: access.outer_axes[axis] for axis in axes if axis in access.outer_axes},
        elementwise=access.elementwise and tuple(axes) == access.axes,
        extents=tuple(access.extents[access.axes.index(axis)] for axis in axes),
        inputs=tuple(
            replace(
                read,
                rows=restrict(read.rows),
                addend_axes=tuple(position[axis] for axis in read.addend_axes if axis in position),
                absent=restrict_absent(read.absent),
            )
            for read in access.inputs
        ),
        outputs=tuple(
            replace(
                written,
                rows=restrict(written.rows),
                combine=tuple(written.combine[access.axes.index(axis)] for axis in axes),
                absent=restrict_absent(written.absent),
            )
            for written in access.outputs
        ),
    )


def _restrict_row(row: Row, position: Mapping[int, int], extents: Sequence[int]) -> Row:
    terms, lower, upper = row
    kept = []
    for axis, coefficient in terms:
        if axis in position:
            kept.append((position[axis], coefficient))
        else:
            reach = coefficient * (extents[axis] - 1)
            lower, upper = lower + min(reach, 0), upper + max(reach, 0)
    return Row(tuple(kept), lower, upper)
