"""Strategies of the analysis carried out with the interpreter in place of a kernel."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.analysis.described_cases import DescribedCase
from tofu.analysis import Combine, OperatorAccess, OutputAccess, Row
from tofu.tdl import interpret

REDUCERS = {"Sum": np.add, "Max": np.maximum, "Min": np.minimum, "Prod": np.multiply}


STARTS = {"Sum": 0.0, "Max": -np.inf, "Min": np.inf, "Prod": 1.0}


def parts(extent: int, count: int) -> list[tuple[int, int]]:
    return [(j * extent // count, (j + 1) * extent // count) for j in range(count)]


def list_parts(access: OperatorAccess, axis: int, count: int) -> list[dict[int, tuple[int, int]]]:
    """Return the ranges of each part along an axis. Nesting axes are cut into single positions."""
    outer = [access.axes.index(name) for name in access.outer_axes.get(access.axes[axis], ())]
    counts = {name: access.extents[name] for name in outer} | {axis: count}
    ranges = [parts(access.extents[name], number) for name, number in counts.items()]
    return [dict(zip(counts, chosen, strict=True)) for chosen in product(*ranges)]


def region(rows: tuple[Row, ...], shape: tuple[int, ...], part: dict[int, tuple[int, int]], extents: tuple[int, ...]):
    """Return the box that a part accesses, by the rule of Row."""
    box = []
    for row, size in zip(rows, shape, strict=True):
        if part.keys().isdisjoint(dict(row.terms)):
            box.append((0, size))
            continue
        begin, end = row.lower, row.upper
        for moved, stride in row.terms:
            first, after = part.get(moved, (0, extents[moved]))
            begin += stride * (first if stride > 0 else after - 1)
            end += stride * (after - 1 if stride > 0 else first)
        box.append((begin, end))
    return box


def cut_box(array: np.ndarray, box: list[tuple[int, int]], fill: float) -> np.ndarray:
    result = np.full([end - begin for begin, end in box], fill)
    inside = [(max(b, 0), max(b, 0, min(e, size))) for (b, e), size in zip(box, array.shape, strict=True)]
    target = tuple(slice(b - begin, e - begin) for (b, e), (begin, _) in zip(inside, box, strict=True))
    result[target] = array[tuple(slice(b, e) for b, e in inside)]
    return result


def paste(whole: np.ndarray, part: np.ndarray, box: list[tuple[int, int]], together: np.ufunc | None) -> None:
    inside = [(max(b, 0), max(b, 0, min(e, size))) for (b, e), size in zip(box, whole.shape, strict=True)]
    source = tuple(slice(b - begin, e - begin) for (b, e), (begin, _) in zip(inside, box, strict=True))
    target = tuple(slice(b, e) for b, e in inside)
    whole[target] = part[source] if together is None else together(whole[target], part[source])


def move(local, needed, access: OperatorAccess, box: list[tuple[int, int]], written: OutputAccess) -> np.ndarray:
    """Return the part of an output in `box`, as the sum of the shifted input regions."""
    total = 0
    for array, region_read, read in zip(local, needed, access.inputs, strict=True):
        if read.is_read:
            begins = [
                b + to.lower - origin.lower
                for (b, _), to, origin in zip(region_read, written.rows, read.rows, strict=True)
            ]
            total = total + cut_box(array, [(b - o, e - o) for (b, e), o in zip(box, begins, strict=True)], read.fill)
    return total


def run_split(case: DescribedCase, access: OperatorAccess, axis: int, count: int) -> list[np.ndarray]:
    """Split an operator along an axis, and cut its nesting axes into single positions."""
    inputs = case.random_inputs()
    results = [
        np.full(shape, STARTS[written.reducer]) for shape, written in zip(case.outputs, access.outputs, strict=True)
    ]
    for part in list_parts(access, axis, count):
        local, needed = [], []
        for array, read in zip(inputs, access.inputs, strict=True):
            box = region(read.rows, array.shape, part, access.extents)
            needed.append(box)
            is_later = any(part[name][0] > 0 for name in read.addend_axes if name in part)
            local.append(cut_box(array, box, read.fill) * (not is_later))
            if not read.is_read:
                local[-1] = np.full_like(local[-1], np.nan)
        boxes = [
            region(written.rows, shape, part, access.extents)
            for written, shape in zip(access.outputs, case.outputs, strict=True)
        ]
        shapes = [tuple(end - begin for begin, end in box) for box in boxes]
        ranges = {access.axes[name]: each for name, each in part.items()}
        changed = access.worker_attributes(ranges, [a.shape for a in local], shapes)
        if access.axes[axis] in access.fetched_axes:  # no kernel runs
            outputs = [move(local, needed, access, *output) for output in zip(boxes, access.outputs, strict=True)]
        else:
            outputs = interpret(case.description, {**case.attributes, **changed}, local, shapes)
        for whole, own, box, written in zip(results, outputs, boxes, access.outputs, strict=True):
            is_partial = any(written.combine[name] in (Combine.REDUCE, Combine.OVERLAP_ADD) for name in part)
            together = REDUCERS[written.reducer]
            paste(whole, own, box, together if is_partial else None)
    return results
