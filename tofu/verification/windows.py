"""Find splits of operators such as convolutions, in which an output row depends on a window of input rows.

Each input row is changed in turn, to see which output rows depend on it. Then each part of the output is computed from
the input rows that it needs, and from rows of padding. The description is not used.
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
_CHANGE = 64.0  # added to input elements; large enough to change a maximum, too


@dataclass(frozen=True)
class Windows:
    """Windows of input rows. Output row n reads `size` rows, from row `begin + n * step` on."""

    begin: int
    size: int
    step: int

    def find_region(self, part: Range) -> Range:
        """Return the input rows (begin, end) that a part of the output reads. They may be outside the input."""
        first, last = part[0], part[1] - 1
        return self.begin + first * self.step, self.begin + last * self.step + self.size


@dataclass(frozen=True)
class WindowGeometry(Geometry):
    """A way to cut an operator that reads its inputs in windows, such as a convolution.

    Attributes
    ----------
    windows
        The windows of each input, or None.
    zeroed
        ("pad", 1) if parts run with pad[1] = 0. None without padding.
    fill
        The value of input rows outside the input.
    """

    windows: tuple[Windows | None, ...] = ()
    zeroed: tuple[str, int] | None = None
    fill: float = 0.0

    def find_region(self, number: int, extent: int, split: int, part: int) -> Range:
        """Return the input rows (begin, end) that a part reads. They may exceed `extent` if `zeroed` is set."""
        windows = self.windows[number]
        assert windows is not None
        begin, end = windows.find_region(self.splits[split][part])
        return (begin, end) if self.zeroed is not None else (max(0, begin), min(extent, end))

    def cut_input(self, number: int, array: Array, split: int, part: int) -> Array:
        """Return the rows of `array` that the operator reads to compute part `part` of the output.

        `array` is input `number`. Rows outside the array have the value `fill`.
        """
        d = self.inputs[number]
        if d is None:
            return array
        begin, end = self.find_region(number, array.shape[d], split, part)
        rows = np.arange(begin, end)
        inside = (rows >= 0) & (rows < array.shape[d])
        cells = array.take(np.clip(rows, 0, array.shape[d] - 1), axis=d)
        shape = [-1 if n == d else 1 for n in range(array.ndim)]
        return np.where(inside.reshape(shape), cells, np.asarray(self.fill).astype(array.dtype)).astype(array.dtype)

    def combine_gradients(self, gradients: Sequence[Array], number: int, whole: Array, split: int) -> Array:
        """Return the gradient of input `number`: the sum of the parts' `gradients`, without padding."""
        d = self.inputs[number]
        assert d is not None
        result = np.moveaxis(np.zeros_like(whole), d, 0)
        for part, gradient in enumerate(gradients):
            begin, end = self.find_region(number, whole.shape[d], split, part)
            low, high = max(0, begin), min(whole.shape[d], end)
            result[low:high] += np.moveaxis(gradient, d, 0)[low - begin : high - begin]
        return np.moveaxis(result, 0, d)

    def shrink(self, values: Mapping[str, Any], split: int, part: int) -> dict[str, Any]:
        """Return the attributes for one part, such as num_filter=4 instead of 8."""
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
    """Return ways to cut a forward operator along the dimensions of its first output.

    Only inputs in `free` may be cut. Dimensions whose length is in `indexed` are not cut.
    """
    geometries: list[Geometry] = []
    for along, extent in enumerate(forward.outputs[0].shape):
        if extent < 3:
            continue
        windows_by_input = [
            _list_cuttable_dimensions(forward, number, along, indexed) if number in free else []
            for number in range(len(forward.inputs))
        ]
        for chosen in product(*([(None, None), *windows] for windows in windows_by_input)):
            if any(windows is not None and windows.size > windows.step for _, windows in chosen) or _is_uneven(
                forward, chosen, extent
            ):
                dimensions = tuple(d for d, _ in chosen)
                windows = tuple(window for _, window in chosen)
                plain = WindowGeometry(dimensions, frozenset(), extent, list_splits(extent), windows=windows)
                geometries += _list_accepted_variants(forward, plain, along, shrinks)
    return geometries


def _is_uneven(forward: Kernel, chosen: Sequence[tuple[int | None, Windows | None]], extent: int) -> bool:
    pairs = zip(forward.inputs, chosen, strict=True)
    return any(d is not None and array.shape[d] % extent for array, (d, _) in pairs)


def _list_cuttable_dimensions(
    forward: Kernel, number: int, along: int, indexed: Collection[int]
) -> list[tuple[int | None, Windows | None]]:
    array = forward.inputs[number]
    if array.dtype.kind != "f":
        return []
    cuttable_dimensions = [d for d, extent in enumerate(array.shape) if extent > 1 and extent not in indexed]
    windows_by_dimension = (
        (d, _fit_windows(_find_dependence(forward, number, d, along), array.shape[d])) for d in cuttable_dimensions
    )
    return [(d, windows) for d, windows in windows_by_dimension if windows is not None]


def _find_dependence(forward: Kernel, number: int, d: int, along: int) -> Array:
    array, output = forward.inputs[number], forward.outputs[0]
    across = tuple(n for n in range(output.ndim) if n != along)
    rows = []
    for row, change in product(range(array.shape[d]), (_CHANGE, -_CHANGE)):
        changed = array.copy()
        np.moveaxis(changed, d, 0)[row] += change
        inputs = [changed if n == number else other for n, other in enumerate(forward.inputs)]
        results = forward.try_run(forward.values, inputs, [output.shape for output in forward.outputs])
        if results is None:
            return np.ones((array.shape[d], output.shape[along]), bool)
        rows.append((results[0] != output).any(axis=across))
    return np.asarray(np.any(np.reshape(rows, (array.shape[d], 2, -1)), axis=1))


def _fit_windows(dependence: Array, extent: int) -> Windows | None:
    input_rows = [np.flatnonzero(column) for column in dependence.T]
    if any(len(rows) == 0 for rows in input_rows):
        return None
    row_ranges = [(int(rows[0]), int(rows[-1]) + 1) for rows in input_rows]
    inner_rows = [n for n, (begin, end) in enumerate(row_ranges) if begin > 0 and end < extent]
    window_pair = next(((n, n + 1) for n in inner_rows if n + 1 in inner_rows), None)
    if window_pair is None:
        widest = max(range(len(row_ranges) - 1), key=lambda n: sum(end - begin for begin, end in row_ranges[n : n + 2]))
        window_pair = (widest, widest + 1)
    (begin, end), (next_begin, _) = row_ranges[window_pair[0]], row_ranges[window_pair[1]]
    size, step = end - begin, next_begin - begin
    windows = Windows(begin - window_pair[0] * step, size, step)
    fits = all(
        (max(0, low), min(extent, high)) == hull
        for hull, (low, high) in ((hull, windows.find_region((n, n + 1))) for n, hull in enumerate(row_ranges))
    )
    return windows if fits and step > 0 and size < extent else None


def _list_accepted_variants(forward: Kernel, plain: WindowGeometry, along: int, shrinks: bool) -> Iterator[Geometry]:
    entries = [
        (name, n)
        for name, value in forward.values.items()
        if isinstance(value, tuple)
        for n, item in enumerate(value)
        if _may_be_padding(item)
    ]
    variants = [plain, *(replace(plain, shrunk=frozenset({plain.base})) for _ in range(shrinks))]
    variants += [replace(plain, zeroed=entry, fill=fill) for entry in entries for fill in FILLS]
    for variant in variants:
        pieces = list[tuple[tuple[Shape, ...], ...]]()
        for number, split in enumerate(plain.splits):
            if (shapes := _infer_parts(forward, variant, along, number, split)) is None:
                break
            pieces.append(shapes)
        else:
            outputs = tuple(
                along if output.shape[along : along + 1] == (plain.base,) else None for output in forward.outputs
            )
            yield replace(variant, outputs=outputs, pieces=tuple(pieces))


def _may_be_padding(item: Any) -> bool:
    sides = item if isinstance(item, tuple) else (item,)  # one number for both sides, or one for each
    return all(type(side) is int and side >= 0 for side in sides) and any(sides)


def _infer_parts(
    forward: Kernel, geometry: WindowGeometry, along: int, number: int, split: Split
) -> tuple[tuple[Shape, ...], ...] | None:
    expected = [
        tuple(
            (*output.shape[:along], end - begin, *output.shape[along + 1 :])
            if output.shape[along : along + 1] == (geometry.base,)
            else output.shape
            for output in forward.outputs
        )
        for begin, end in split
    ]
    parts = enumerate(expected)
    return tuple(expected) if all(infer_part(forward, geometry, number, n) == part for n, part in parts) else None
