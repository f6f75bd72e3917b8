"""Cuts with halos: parts of an input that overlap, or that stand in no ratio to the parts of the output.

What each row of an output is computed from is seen by changing the inputs, a row at a time. A part of the output then gets the rows that
it needs, and where an attribute such as a pad made up rows beyond the border, those too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from tofu.verification.cuts import Geometry, Split, infer_part, list_splits
from tofu.verification.kernel import Array, Kernel, Shape
from tofu.verification.split import Range

FILLS = (0.0, -np.inf)
_BY = 64.0  # more than any number that is drawn, so that a maximum changes too


@dataclass(frozen=True)
class Windows:
    """Of one input along one dimension: the first row that row 0 of the output reads, how many, and by how many the next one's lie on."""

    begin: int
    size: int
    step: int

    def find_region(self, part: Range) -> Range:
        """The rows that a part of the output reads, outside the input too."""
        first, last = part[0], part[1] - 1
        return self.begin + first * self.step, self.begin + last * self.step + self.size


@dataclass(frozen=True)
class WindowGeometry(Geometry):
    """How a forward operator's tensors are cut where inputs are read in windows: those of `windows`, by input.

    `zeroed` is an entry of an attribute, by name and position, that parts have as zero, a number or both of a pair: its rows beyond the
    border are part of the regions, and hold `fill`.
    """

    windows: tuple[Windows | None, ...] = ()
    zeroed: tuple[str, int] | None = None
    fill: float = 0.0

    def find_region(self, number: int, extent: int, split: int, part: int) -> Range:
        """The rows of an input of that extent that a part reads; outside it only where they are made up."""
        windows = self.windows[number]
        assert windows is not None
        begin, end = windows.find_region(self.splits[split][part])
        return (begin, end) if self.zeroed is not None else (max(0, begin), min(extent, end))

    def cut_input(self, number: int, array: Array, split: int, part: int) -> Array:
        """A part of an array that is shaped like an input of the forward operator."""
        d = self.inputs[number]
        if d is None:
            return array
        begin, end = self.find_region(number, array.shape[d], split, part)
        rows = np.arange(begin, end)
        inside = (rows >= 0) & (rows < array.shape[d])
        cells = array.take(np.clip(rows, 0, array.shape[d] - 1), axis=d)
        shape = [-1 if n == d else 1 for n in range(array.ndim)]
        return np.where(inside.reshape(shape), cells, np.asarray(self.fill).astype(array.dtype)).astype(array.dtype)

    def put_together(self, pieces: Sequence[Array], number: int, whole: Array, split: int) -> Array:
        """The gradient of an input from those of its parts: their sum, what lies outside dropped."""
        d = self.inputs[number]
        assert d is not None
        result = np.moveaxis(np.zeros_like(whole), d, 0)
        for part, piece in enumerate(pieces):
            begin, end = self.find_region(number, whole.shape[d], split, part)
            low, high = max(0, begin), min(whole.shape[d], end)
            result[low:high] += np.moveaxis(piece, d, 0)[low - begin : high - begin]
        return np.moveaxis(result, 0, d)

    def shrink(self, values: Mapping[str, Any], split: int, part: int) -> dict[str, Any]:
        """The attributes of one part."""
        local = super().shrink(values, split, part)
        if self.zeroed is not None:
            name, position = self.zeroed
            entry = local[name][position]
            zero = 0 if isinstance(entry, int) else (0,) * len(entry)
            local[name] = (*local[name][:position], zero, *local[name][position + 1 :])
        return local


def list_window_geometries(
    forward: Kernel, free: Collection[int], indexed: Collection[int], shrinks: bool = True
) -> list[Geometry]:
    """The ways to cut a forward operator's first output along one dimension, and each input where it is read in windows.

    The inputs at the positions `free` may be cut: those whose numbers are no positions, which may become any others.
    """
    return list(_list_geometries(forward, free, indexed, shrinks))


def _list_geometries(
    forward: Kernel, free: Collection[int], indexed: Collection[int], shrinks: bool
) -> Iterator[Geometry]:
    output = forward.outputs[0]
    for along, extent in enumerate(output.shape):
        if extent < 3:
            continue
        found = [
            _list_windows(forward, number, along, indexed) if number in free else []
            for number in range(len(forward.inputs))
        ]
        for chosen in product(*([(None, None), *windows] for windows in found)):
            if any(windows is not None and windows.size > windows.step for _, windows in chosen) or _is_uneven(
                forward, chosen, extent
            ):
                dimensions = tuple(d for d, _ in chosen)
                windows = tuple(one for _, one in chosen)
                plain = WindowGeometry(dimensions, frozenset(), extent, list_splits(extent), windows=windows)
                yield from _complete(forward, plain, along, shrinks)


def _is_uneven(forward: Kernel, chosen: Sequence[tuple[int | None, Windows | None]], extent: int) -> bool:
    """Whether an input is cut, and in other ratios than the output."""
    pairs = zip(forward.inputs, chosen, strict=True)
    return any(d is not None and array.shape[d] % extent for array, (d, _) in pairs)


def _list_windows(
    forward: Kernel, number: int, along: int, indexed: Collection[int]
) -> list[tuple[int | None, Windows | None]]:
    """The dimensions of an input that the rows of the output read in windows."""
    array = forward.inputs[number]
    if array.dtype.kind != "f":
        return []
    free = [d for d, extent in enumerate(array.shape) if extent > 1 and extent not in indexed]
    found = ((d, _fit(_find_readers(forward, number, d, along), array.shape[d])) for d in free)
    return [(d, windows) for d, windows in found if windows is not None]


def _find_readers(forward: Kernel, number: int, d: int, along: int) -> Array:
    """Which rows of the first output, across, change with which rows of the input, down."""
    array, output = forward.inputs[number], forward.outputs[0]
    across = tuple(n for n in range(output.ndim) if n != along)
    rows = []
    for row, by in product(range(array.shape[d]), (_BY, -_BY)):
        changed = array.copy()
        np.moveaxis(changed, d, 0)[row] += by
        inputs = [changed if n == number else other for n, other in enumerate(forward.inputs)]
        results = forward.try_run(forward.values, inputs, [one.shape for one in forward.outputs])
        if results is None:
            return np.ones((array.shape[d], output.shape[along]), bool)
        rows.append((results[0] != output).any(axis=across))
    return np.asarray(np.any(np.reshape(rows, (array.shape[d], 2, -1)), axis=1))


def _fit(readers: Array, extent: int) -> Windows | None:
    """The windows in which the rows of the output read those of the input, if they do; None where each reads them all."""
    read = [np.flatnonzero(column) for column in readers.T]
    if any(len(rows) == 0 for rows in read):
        return None
    hulls = [(int(rows[0]), int(rows[-1]) + 1) for rows in read]
    inner = [n for n, (begin, end) in enumerate(hulls) if begin > 0 and end < extent]
    pair = next(((n, n + 1) for n in inner if n + 1 in inner), None)
    if pair is None:
        whole = max(range(len(hulls) - 1), key=lambda n: sum(end - begin for begin, end in hulls[n : n + 2]))
        pair = (whole, whole + 1)
    (begin, end), (after, _) = hulls[pair[0]], hulls[pair[1]]
    size, step = end - begin, after - begin
    windows = Windows(begin - pair[0] * step, size, step)
    fits = all(
        (max(0, low), min(extent, high)) == hull
        for hull, (low, high) in ((hull, windows.find_region((n, n + 1))) for n, hull in enumerate(hulls))
    )
    return windows if fits and step > 0 and size < extent else None


def _complete(forward: Kernel, plain: WindowGeometry, along: int, shrinks: bool) -> Iterator[Geometry]:
    """With attributes as they are, as large as a part, or zero; where the parts of the output are inferred."""
    entries = [
        (name, n)
        for name, value in forward.values.items()
        if isinstance(value, tuple)
        for n, item in enumerate(value)
        if _is_border(item)
    ]
    variants = [plain, *(replace(plain, shrunk=frozenset({plain.base})) for _ in range(shrinks))]
    variants += [replace(plain, zeroed=entry, fill=fill) for entry in entries for fill in FILLS]
    for variant in variants:
        pieces = list[tuple[tuple[Shape, ...], ...]]()
        for number, split in enumerate(plain.splits):
            if (shapes := _infer(forward, variant, along, number, split)) is None:
                break
            pieces.append(shapes)
        else:
            outputs = tuple(along if one.shape[along : along + 1] == (plain.base,) else None for one in forward.outputs)
            yield replace(variant, outputs=outputs, pieces=tuple(pieces))


def _is_border(item: Any) -> bool:
    """Whether an entry of an attribute may say how many rows are made up: a number, or one for each side."""
    sides = item if isinstance(item, tuple) else (item,)
    return all(type(side) is int and side >= 0 for side in sides) and any(sides)


def _infer(
    forward: Kernel, geometry: WindowGeometry, along: int, number: int, split: Split
) -> tuple[tuple[Shape, ...], ...] | None:
    """The shapes of the outputs of each part; None where they do not make up the whole."""
    expected = [
        tuple(
            (*one.shape[:along], end - begin, *one.shape[along + 1 :])
            if one.shape[along : along + 1] == (geometry.base,)
            else one.shape
            for one in forward.outputs
        )
        for begin, end in split
    ]
    parts = enumerate(expected)
    return tuple(expected) if all(infer_part(forward, geometry, number, n) == one for n, one in parts) else None
