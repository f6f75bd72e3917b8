"""Split an operator along its axes with NumPy: cut the inputs of each part, and combine the outputs of all parts.

This module does not use `tofu.search` and `csrc/core`, so that it can find errors in them.
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
"""Number of a split axis -> the range of the axis that one part computes, as (first position, position after the last)."""

_REDUCERS: Mapping[str, Callable[..., Any]] = {"Sum": np.sum, "Max": np.max, "Min": np.min, "Prod": np.prod}


class SplitError(Exception):
    """Error for parts that do not form the whole output."""


def split_range(extent: int, parts: int) -> list[Range]:
    """Divide an extent into ranges. Range j of n is [j * extent // n, (j + 1) * extent // n)."""
    return [(j * extent // parts, (j + 1) * extent // parts) for j in range(parts)]


def count_parts(access: OperatorAccess, axes: Sequence[int], count: int) -> dict[int, int]:
    """Return {axis: number of parts} for a split of `axes` into `count` parts each.

    Outer axes (`OperatorAccess.outer_axes`) come first, and are split into parts of length 1.
    """
    outer = {axis: [access.axes.index(name) for name in access.outer_axes.get(access.axes[axis], ())] for axis in axes}
    counts = dict.fromkeys((a for axis in axes for a in (*outer[axis], axis)), count)
    return counts | {a: access.extents[a] for each in outer.values() for a in each}


def list_parts(splits: Mapping[int, Sequence[Range]]) -> list[Part]:
    """Return all parts: every combination of one range of each axis, in row-major order."""
    return [dict(zip(splits, ranges, strict=True)) for ranges in product(*splits.values())]


def find_region(rows: Sequence[Row], shape: Shape, part: Part, extents: Sequence[int]) -> Box:
    """Return the region of a tensor that a part reads or writes. The region may exceed the tensor."""
    split_ranges = {axis: axis_range for axis, axis_range in part.items() if axis_range != (0, extents[axis])}
    region = []
    for row, extent in zip(rows, shape, strict=True):
        if all(moving not in split_ranges for moving, _ in row.terms):
            region.append((0, extent))
            continue
        ranges = [split_ranges.get(moving, (0, extents[moving])) for moving, _ in row.terms]
        begin, end = row.lower, row.upper
        for (_, coefficient), (first, last) in zip(row.terms, ranges, strict=True):
            begin += coefficient * (first if coefficient > 0 else last - 1)
            end += coefficient * (last - 1 if coefficient > 0 else first)
        region.append((begin, end))
    return tuple(region)


def find_part(access: InputAccess | OutputAccess, shape: Shape, part: Part, extents: Sequence[int]) -> Box:
    """Return the region of a tensor that a part reads or writes.

    The region is empty if the part does not use the tensor. For example, the first part of `np.stack([a, b])` does not
    read b.
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
    """Return the region of an input that the kernel of a part receives.

    Elements outside of the tensor are `fill`. If the input has `addend_axes`, all parts except the first receive zeros.
    An input that the kernel should not read is NaN.
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


def move_elements(inputs: Sequence[Array], access: OperatorAccess, part: Part, shapes: Sequence[Shape]) -> list[Array]:
    """Compute the outputs of one part, for an operator that only moves elements.

    `shapes` are the shapes of the whole outputs.
    """

    def move_inputs(access_output: OutputAccess, shape: Shape) -> Array:
        moved_inputs = [
            _move_input(array, access_input, access_output, shape, part, access.extents)
            for array, access_input in zip(inputs, access.inputs, strict=True)
            if access_input.is_read
        ]
        return np.asarray(np.sum(moved_inputs, axis=0))

    return list(map(move_inputs, access.outputs, shapes))


def _move_input(
    array: Array,
    access_input: InputAccess,
    access_output: OutputAccess,
    shape: Shape,
    part: Part,
    extents: Sequence[int],
) -> Array:
    input_region = [*find_part(access_input, array.shape, part, extents)]
    output_region = [*find_part(access_output, shape, part, extents)]
    output_part = np.full(region_shape(tuple(output_region)), access_input.fill, array.dtype)
    input_rows, output_rows = list(access_input.rows), list(access_output.rows)
    for absent, region, rows in (
        (access_input.absent, input_region, input_rows),
        (access_output.absent, output_region, output_rows),
    ):
        if absent is not None:
            region.insert(absent.dimension, (0, 1))
            rows.insert(absent.dimension, absent.row)
    if access_input.absent is not None:
        array = np.expand_dims(array, access_input.absent.dimension)
    expanded_output = (
        output_part if access_output.absent is None else np.expand_dims(output_part, access_output.absent.dimension)
    )
    bounds = []
    for n, extent in enumerate(array.shape):
        distance = output_rows[n].lower - input_rows[n].lower
        first, last = (bound - distance for bound in output_region[n])
        bounds.append((max(0, input_region[n][0], first), min(extent, input_region[n][1], last), first))
    moved_elements = array[tuple(slice(begin, max(begin, end)) for begin, end, _ in bounds)]
    if moved_elements.size:
        expanded_output[tuple(slice(begin - first, end - first) for begin, end, first in bounds)] = moved_elements
    return output_part


def combine_outputs(
    part_outputs: Sequence[Array],
    access: OutputAccess,
    splits: Mapping[int, Sequence[Range]],
    operator_access: OperatorAccess,
    shape: Shape,
) -> Array:
    """Combine the outputs of the parts. Elements that no part writes are zero, as in the gradient of a slice.

    `part_outputs` has an array for each part, in the order of `list_parts`. Raises SplitError if concatenated parts
    overlap, or if replicated parts differ.
    """
    regions = [find_part(access, shape, part, operator_access.extents) for part in list_parts(splits)]
    clipped_parts = [_clip_output(region, piece, shape) for region, piece in zip(regions, part_outputs, strict=True)]
    for axis, ranges in reversed(list(splits.items())):
        groups = [clipped_parts[n : n + len(ranges)] for n in range(0, len(clipped_parts), len(ranges))]
        clipped_parts = [_combine_along_axis(group, access.combine[axis], access.reducer) for group in groups]
    ((box, combined),) = clipped_parts
    result = np.zeros(shape, combined.dtype)
    result[tuple(slice(*bounds) for bounds in box)] = combined
    return result


def _clip_output(region: Box, part_output: Array, shape: Shape) -> tuple[Box, Array]:
    inside, within = _clip(region, shape)
    return tuple((interval.start, interval.stop) for interval in inside), part_output[within]


def _combine_along_axis(parts: Sequence[tuple[Box, Array]], combine: Combine, reducer: str) -> tuple[Box, Array]:
    box, first = parts[0]
    arrays = [array for _, array in parts]
    if combine is Combine.REDUCE:
        return box, np.asarray(_REDUCERS[reducer](arrays, axis=0))
    if combine is Combine.REPLICATE:
        if any(not np.allclose(array, first, rtol=1e-10, atol=1e-10, equal_nan=True) for array in arrays):
            raise SplitError("the parts of a replicated output differ")
        return box, first
    parts = [piece for piece in parts if piece[1].size] or parts[:1]  # an empty part has no position
    hull = tuple(
        (min(b for b, _ in bounds), max(e for _, e in bounds))
        for bounds in zip(*(box for box, _ in parts), strict=True)
    )
    shape = region_shape(hull)
    result, count = np.zeros(shape, first.dtype), np.zeros(shape, int)
    for region, array in parts:
        inside = tuple(slice(b - origin, e - origin) for (b, e), (origin, _) in zip(region, hull, strict=True))
        result[inside] += array
        count[inside] += 1
    if combine is Combine.CONCAT and (count > 1).any():
        raise SplitError(f"concatenated parts write {(count > 1).sum()} elements twice")
    return hull, result


def _clip(region: Box, shape: Shape) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    bounds = [
        (max(0, begin), max(0, min(end, extent)), begin) for (begin, end), extent in zip(region, shape, strict=True)
    ]
    inside = tuple(slice(min(begin, end), end) for begin, end, _ in bounds)
    return inside, tuple(slice(begin - origin, max(begin, end) - origin) for begin, end, origin in bounds)


def relative_error(value: Array, reference: Array) -> float:
    """Return the largest error, divided by the largest magnitude in `reference`.

    A magnitude below 1 counts as 1. Return infinity if the shapes or the places of NaNs differ.
    """
    if value.shape != reference.shape:
        return float("inf")
    with np.errstate(invalid="ignore"):
        are_equal = (value == reference) | (np.isnan(value) & np.isnan(reference))
        number_type = complex if "c" in (value.dtype.kind, reference.dtype.kind) else float
        difference = np.where(
            are_equal, 0.0, np.abs(np.asarray(value, number_type) - np.asarray(reference, number_type))
        )
    difference = np.where(np.isnan(difference), np.inf, difference)  # `max` would skip a NaN
    magnitude = np.abs(reference[np.isfinite(reference)])
    return float(difference.max(initial=0.0) / max(1.0, magnitude.max(initial=0.0)))
