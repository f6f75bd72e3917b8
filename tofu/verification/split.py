"""Splits of an operator along its axes with NumPy: cut the inputs of each part, and combine the outputs of all parts.

This module uses neither `tofu.search` nor `csrc/core`, so that it finds errors in their treatment of regions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from tofu.analysis import Combine, InputAccess, OperatorAccess, OutputAccess, Row
from tofu.verification.kernel import Array, Shape

Box = tuple[tuple[int, int], ...]
Range = tuple[int, int]
Part = Mapping[int, Range]
"""One part's range of each split axis, by the axis's number: its first position, and the position after its last."""

_REDUCERS: Mapping[str, Callable[..., Any]] = {"Sum": np.sum, "Max": np.max, "Min": np.min, "Prod": np.prod}


class SplitError(Exception):
    """The outputs of the parts do not form the whole output."""


def split_range(extent: int, parts: int) -> list[Range]:
    """Return the parts of an extent: part j of n is [j * extent // n, (j + 1) * extent // n)."""
    return [(j * extent // parts, (j + 1) * extent // parts) for j in range(parts)]


def find_region(rows: Sequence[Row], shape: Shape, part: Part, extents: Sequence[int]) -> Box:
    """Return the region of a tensor that a part touches. It is half-open, and may exceed the tensor."""
    split = {axis: taken for axis, taken in part.items() if taken != (0, extents[axis])}
    region = []
    for row, extent in zip(rows, shape, strict=True):
        if all(moving not in split for moving, _ in row.terms):
            region.append((0, extent))
            continue
        ranges = [split.get(moving, (0, extents[moving])) for moving, _ in row.terms]
        begin, end = row.lower, row.upper
        for (_, step), (first, last) in zip(row.terms, ranges, strict=True):
            begin += step * (first if step > 0 else last - 1)
            end += step * (last - 1 if step > 0 else first)
        region.append((begin, end))
    return tuple(region)


def find_part(access: InputAccess | OutputAccess, shape: Shape, part: Part, extents: Sequence[int]) -> Box:
    """Return the region of a tensor that a part touches.

    The region is empty if the tensor lacks a dimension, and the part lacks the tensor's position along it.
    """
    region = find_region(access.rows, shape, part, extents)
    if access.absent is None:
        return region
    ((begin, end),) = find_region((access.absent.row,), (1,), part, extents)
    return region if begin <= 0 < end else tuple((0, 0) for _ in region)


def region_shape(region: Box) -> Shape:
    """Return the extents of a region."""
    return tuple(end - begin for begin, end in region)


def cut_input(array: Array, access: InputAccess, part: Part, extents: Sequence[int]) -> Array:
    """Return the region of an input that a part's kernel receives.

    Elements outside the tensor are `fill`. An addend of another part is zero. An input that the kernel should not read is
    NaN, so that a kernel that reads it is noticed.
    """
    region = find_region(access.rows, array.shape, part, extents)
    if not access.is_read:
        return np.full(region_shape(region), np.nan if array.dtype.kind == "f" else 0, array.dtype)
    if any(part[axis][0] > 0 for axis in access.addend_axes if axis in part):
        return np.zeros(region_shape(region), array.dtype)
    result = np.full(region_shape(region), access.fill, array.dtype)
    inside, within = _clip(region, array.shape)
    result[within] = array[inside]
    return result


def move_cells(inputs: Sequence[Array], access: OperatorAccess, part: Part, shapes: Sequence[Shape]) -> list[Array]:
    """Return the outputs of a part of an operator that only moves elements, as a fetch assembles them without a kernel.

    `shapes` are the shapes of the whole outputs.
    """
    read = [(array, operand) for array, operand in zip(inputs, access.inputs, strict=True) if operand.is_read]
    return [
        np.sum([_move(array, operand, written, shape, part, access.extents) for array, operand in read], axis=0)
        for written, shape in zip(access.outputs, shapes, strict=True)
    ]


def _move(
    array: Array, read: InputAccess, written: OutputAccess, shape: Shape, part: Part, extents: Sequence[int]
) -> Array:
    """Return the elements that one input contributes to a part of an output, with `fill` around them."""
    source = [*find_part(read, array.shape, part, extents)]
    target = [*find_part(written, shape, part, extents)]
    empty = np.full(region_shape(tuple(target)), read.fill, array.dtype)
    before, after = list(read.rows), list(written.rows)
    for absent, region, rows in ((read.absent, source, before), (written.absent, target, after)):
        if absent is not None:
            region.insert(absent.dimension, (0, 1))
            rows.insert(absent.dimension, absent.row)
    if read.absent is not None:
        array = np.expand_dims(array, read.absent.dimension)
    result = empty if written.absent is None else np.expand_dims(empty, written.absent.dimension)
    bounds = []
    for n, extent in enumerate(array.shape):
        distance = after[n].lower - before[n].lower
        first, last = (bound - distance for bound in target[n])
        bounds.append((max(0, source[n][0], first), min(extent, source[n][1], last), first))
    cells = array[tuple(slice(begin, max(begin, end)) for begin, end, _ in bounds)]
    if cells.size:
        result[tuple(slice(begin - first, end - first) for begin, end, first in bounds)] = cells
    return empty


def combine_outputs(
    pieces: Sequence[Array],
    access: OutputAccess,
    splits: Mapping[int, Sequence[Range]],
    whole: OperatorAccess,
    shape: Shape,
) -> Array:
    """Combine the parts of an output. Elements that no part writes are zero, as in the gradient of a slice.

    `splits` has the ranges of each split axis. `pieces` has a part for each combination of ranges, with the last axis
    varying fastest. Raises SplitError if concatenated parts overlap, or if replicated parts differ.
    """
    parts = [dict(zip(splits, ranges, strict=True)) for ranges in product(*splits.values())]
    regions = [find_part(access, shape, part, whole.extents) for part in parts]
    held = [_clip_piece(region, piece, shape) for region, piece in zip(regions, pieces, strict=True)]
    for axis, ranges in reversed(list(splits.items())):
        groups = [held[n : n + len(ranges)] for n in range(0, len(held), len(ranges))]
        held = [_combine(group, access.combine[axis], access.reducer) for group in groups]
    ((box, together),) = held
    result = np.zeros(shape, together.dtype)
    result[tuple(slice(*bounds) for bounds in box)] = together
    return result


def _clip_piece(region: Box, piece: Array, shape: Shape) -> tuple[Box, Array]:
    inside, within = _clip(region, shape)
    return tuple((interval.start, interval.stop) for interval in inside), piece[within]


def _combine(pieces: Sequence[tuple[Box, Array]], combine: Combine, reducer: str) -> tuple[Box, Array]:
    box, first = pieces[0]
    arrays = [array for _, array in pieces]
    if combine is Combine.REDUCE:
        return box, np.asarray(_REDUCERS[reducer](arrays, axis=0))
    if combine is Combine.REPLICATE:
        if any(not np.allclose(array, first, rtol=1e-10, atol=1e-10, equal_nan=True) for array in arrays):
            raise SplitError("the parts of a replicated output differ")
        return box, first
    pieces = [piece for piece in pieces if piece[1].size] or pieces[:1]  # an empty part has no position
    hull = tuple(
        (min(b for b, _ in bounds), max(e for _, e in bounds))
        for bounds in zip(*(box for box, _ in pieces), strict=True)
    )
    shape = region_shape(hull)
    result, count = np.zeros(shape, first.dtype), np.zeros(shape, int)
    for region, array in pieces:
        inside = tuple(slice(b - origin, e - origin) for (b, e), (origin, _) in zip(region, hull, strict=True))
        result[inside] += array
        count[inside] += 1
    if combine is Combine.CONCAT and (count > 1).any():
        raise SplitError(f"concatenated parts write {(count > 1).sum()} elements twice")
    return hull, result


def _clip(region: Box, shape: Shape) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Clip a region to the tensor. Return the rest, which may be empty, as slices of the tensor and of the region."""
    bounds = [
        (max(0, begin), max(0, min(end, extent)), begin) for (begin, end), extent in zip(region, shape, strict=True)
    ]
    inside = tuple(slice(min(begin, end), end) for begin, end, _ in bounds)
    return inside, tuple(slice(begin - origin, max(begin, end) - origin) for begin, end, origin in bounds)


def relative_error(value: Array, reference: Array) -> float:
    """Return the largest error of any element, divided by the largest magnitude in `reference`, or by 1 if that is larger.

    It is infinite if an element is NaN in only one of the arrays, because `max` of several errors would skip a NaN.
    """
    if value.shape != reference.shape:
        return float("inf")
    with np.errstate(invalid="ignore"):
        same = (value == reference) | (np.isnan(value) & np.isnan(reference))
        kind = complex if "c" in (value.dtype.kind, reference.dtype.kind) else float
        difference = np.where(same, 0.0, np.abs(np.asarray(value, kind) - np.asarray(reference, kind)))
    difference = np.where(np.isnan(difference), np.inf, difference)
    magnitude = np.abs(reference[np.isfinite(reference)])
    return float(difference.max(initial=0.0) / max(1.0, magnitude.max(initial=0.0)))
