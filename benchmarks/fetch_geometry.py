"""Fetches for `benchmarks.multi_fetch`, with their result in NumPy."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "fetches"
Box = tuple[int, ...]


@dataclass(frozen=True)
class FetchPiece:
    """A box of the fetched region. It is a sum of boxes of inputs: `sources` has (input number, first element) of each."""

    begin: Box
    extent: Box
    sources: tuple[tuple[int, Box], ...]


@dataclass(frozen=True)
class Fetch:
    """A region of `shape`, assembled from boxes of the inputs. Elements outside of all pieces get the value `fill`."""

    name: str
    shape: Box
    inputs: tuple[Box, ...]
    pieces: tuple[FetchPiece, ...]
    fill: float = 0.0

    def bytes_moved(self, element_bytes: int) -> int:
        read = sum(_volume(piece.extent) * len(piece.sources) for piece in self.pieces)
        return (read + _volume(self.shape)) * element_bytes

    def encode(self, gpus: int = 1) -> NDArray[np.int64]:
        """Return the numbers that csrc/bindings/cuda_library.cc reads. Inputs are placed on the GPUs in turn."""
        rank = len(self.shape)
        numbers = [rank, *self.shape, len(self.inputs)]
        for i, shape in enumerate(self.inputs):
            numbers += [i % gpus, rank, *shape]
        numbers.append(len(self.pieces))
        for piece in self.pieces:
            numbers += [rank, *piece.begin, rank, *piece.extent, len(piece.sources)]
            for source, begin in piece.sources:
                numbers += [source, rank, *begin, 0]  # along the same dimensions
        return np.array(numbers, dtype=np.int64)

    def compute(self, library: Any, arrays: Sequence[Any], dtype: str) -> Any:
        """Return the region, computed by separate operators of `library` (numpy or cupy). Float16 is summed in float32."""
        wide = "float32" if dtype == "float16" else dtype
        is_covered = sum(map(_volume, (piece.extent for piece in self.pieces))) == _volume(self.shape)
        region = library.empty(self.shape, dtype) if is_covered else library.full(self.shape, self.fill, dtype)
        for piece in self.pieces:
            parts = [arrays[source][_slices(begin, piece.extent)].copy() for source, begin in piece.sources]
            total = parts[0].astype(wide, copy=False)
            for part in parts[1:]:
                total = total + part.astype(wide, copy=False)
            region[_slices(piece.begin, piece.extent)] = total.astype(dtype, copy=False)
        return region


def _volume(extent: Box) -> int:
    return math.prod(extent)


def _slices(begin: Box, extent: Box) -> tuple[slice, ...]:
    return tuple(slice(b, b + n) for b, n in zip(begin, extent, strict=True))


def side_by_side(name: str, parts: int, rows: int, columns: int, padding: int = 0) -> Fetch:
    """Return a fetch of shards side by side. Rows in the source are longer by `padding` columns."""
    shape = (rows, columns + padding)
    pieces = tuple(FetchPiece((0, columns * i), (rows, columns), ((i, (0, 0)),)) for i in range(parts))
    return Fetch(name, (rows, columns * parts), (shape,) * parts, pieces)


def stacked(name: str, parts: int, cells: int) -> Fetch:
    pieces = tuple(FetchPiece((cells * i,), (cells,), ((i, (0,)),)) for i in range(parts))
    return Fetch(name, (cells * parts,), ((cells,),) * parts, pieces)


def summed(name: str, sources: int, cells: int) -> Fetch:
    piece = FetchPiece((0,), (cells,), tuple((i, (0,)) for i in range(sources)))
    return Fetch(name, (cells,), ((cells,),) * sources, (piece,))


def bordered(name: str, images: int, side: int) -> Fetch:
    """Return a fetch of images with a filled border of one element, as for a convolution split in space."""
    region = (images, side + 2, side + 2)
    shape = (images, side, side)
    return Fetch(name, region, (shape,), (FetchPiece((0, 1, 1), shape, ((0, (0, 0, 0)),)),))


def random_fetch(seed: int, largest: int = 40) -> Fetch:
    rng = np.random.RandomState(seed)
    rank = rng.randint(1, 7)
    most = max(3, int(largest ** (2 / rank)))
    shape = tuple(int(n) for n in rng.randint(1, most + 1, rank))
    boxes: list[tuple[Box, Box]] = []  # first element, and extent
    todo: list[tuple[Box, Box]] = [((0,) * rank, shape)]
    while todo:
        begin, extent = todo.pop()
        d = rng.randint(rank)
        if extent[d] < 2 or rng.rand() < 0.3 or len(boxes) + len(todo) > 6:
            boxes.append((begin, extent))
            continue
        cut = rng.randint(1, extent[d])
        todo.append((begin, _with(extent, d, cut)))
        todo.append((_with(begin, d, begin[d] + cut), _with(extent, d, extent[d] - cut)))
    inputs: list[Box] = []
    pieces = []
    for begin, extent in boxes:
        if rng.rand() < 0.2:
            continue  # filled
        sources = []
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = tuple(int(n) for n in rng.randint(0, 5, rank))
            sources.append((len(inputs), at))
            inputs.append(tuple(a + n + int(rng.randint(0, 3)) for a, n in zip(at, extent, strict=True)))
        pieces.append(FetchPiece(begin, extent, tuple(sources)))
    return Fetch(f"random {seed}", shape, tuple(inputs), tuple(pieces), float(rng.randint(0, 3)))


def _with(values: Box, position: int, value: int) -> Box:
    return (*values[:position], int(value), *values[position + 1 :])


def load(path: Path) -> list[Fetch]:
    return [
        Fetch(
            name,
            tuple(shape),
            tuple(map(tuple, inputs)),
            tuple(
                FetchPiece(tuple(b), tuple(e), tuple((i, tuple(at)) for i, at in sources)) for b, e, sources in pieces
            ),
            fill,
        )
        for name, shape, inputs, pieces, fill in json.loads(path.read_text())
    ]
