"""Fetches as values for `benchmarks.multi_fetch`: their boxes, their NumPy result, and files of them.

Knows neither MXNet nor CUDA. `python -m benchmarks.fetch_geometry` writes the files of benchmarks/fetches from real plans, which
needs Tofu as built.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "fetches"
Box = tuple[int, ...]


@dataclass(frozen=True)
class Piece:
    """A box of the region, and (input, begin) of the boxes whose sum it is."""

    begin: Box
    extent: Box
    sources: tuple[tuple[int, Box], ...]


@dataclass(frozen=True)
class Fetch:
    """A region of `shape`, made of pieces of inputs of these shapes; cells of no piece are `fill`."""

    name: str
    shape: Box
    inputs: tuple[Box, ...]
    pieces: tuple[Piece, ...]
    fill: float = 0.0

    def bytes_moved(self, element_bytes: int) -> int:
        """What has to be read and written at least."""
        read = sum(_volume(piece.extent) * len(piece.sources) for piece in self.pieces)
        return (read + _volume(self.shape)) * element_bytes

    def encode(self, gpus: int = 1) -> np.ndarray:
        """As csrc/bindings/cuda_library.cc reads it; the inputs lie on the GPUs in turn."""
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
        """The region as separate operators make it: slices are copied, added up in order, and put together.

        `library` is numpy or cupy. Halves are summed in float.
        """
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
    """`parts` shards next to each other: rows of each are narrow, and lie apart in the source by `padding` more columns."""
    shape = (rows, columns + padding)
    pieces = tuple(Piece((0, columns * i), (rows, columns), ((i, (0, 0)),)) for i in range(parts))
    return Fetch(name, (rows, columns * parts), (shape,) * parts, pieces)


def stacked(name: str, parts: int, cells: int) -> Fetch:
    """`parts` shards after each other: every piece is one run."""
    pieces = tuple(Piece((cells * i,), (cells,), ((i, (0,)),)) for i in range(parts))
    return Fetch(name, (cells * parts,), ((cells,),) * parts, pieces)


def summed(name: str, sources: int, cells: int) -> Fetch:
    """The sum of `sources` arrays."""
    piece = Piece((0,), (cells,), tuple((i, (0,)) for i in range(sources)))
    return Fetch(name, (cells,), ((cells,),) * sources, (piece,))


def bordered(name: str, images: int, side: int) -> Fetch:
    """Images with one more cell on each side, which is filled: rows of no round number of bytes, as for a convolution split in space."""
    region = (images, side + 2, side + 2)
    shape = (images, side, side)
    return Fetch(name, region, (shape,), (Piece((0, 1, 1), shape, ((0, (0, 0, 0)),)),))


def random_fetch(seed: int, largest: int = 40) -> Fetch:
    """1 to 6 dimensions, pieces cut at random, up to 8 sources each, a halo here and there."""
    rng = np.random.RandomState(seed)
    rank = rng.randint(1, 7)
    most = max(3, int(largest ** (2 / rank)))
    shape = tuple(int(n) for n in rng.randint(1, most + 1, rank))
    boxes, todo = [], [((0,) * rank, shape)]
    while todo:
        begin, extent = todo.pop()
        d = rng.randint(rank)
        if extent[d] < 2 or rng.rand() < 0.3 or len(boxes) + len(todo) > 6:
            boxes.append((begin, extent))
            continue
        at = rng.randint(1, extent[d])
        todo.append((begin, _with(extent, d, at)))
        todo.append((_with(begin, d, begin[d] + at), _with(extent, d, extent[d] - at)))
    inputs, pieces = [], []
    for begin, extent in boxes:
        if rng.rand() < 0.2:
            continue  # filled
        sources = []
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = tuple(int(n) for n in rng.randint(0, 5, rank))
            sources.append((len(inputs), at))
            inputs.append(tuple(a + n + int(rng.randint(0, 3)) for a, n in zip(at, extent, strict=True)))
        pieces.append(Piece(begin, extent, tuple(sources)))
    return Fetch(f"random {seed}", shape, tuple(inputs), tuple(pieces), float(rng.randint(0, 3)))


def _with(values: Box, position: int, value: int) -> Box:
    return (*values[:position], int(value), *values[position + 1 :])


def save(fetches: Sequence[Fetch], path: Path) -> None:
    """One line for each fetch."""
    lines = [
        json.dumps([f.name, f.shape, f.inputs, [[p.begin, p.extent, p.sources] for p in f.pieces], f.fill])
        for f in fetches
    ]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def load(path: Path) -> list[Fetch]:
    """What `save` wrote."""
    return [
        Fetch(
            name,
            tuple(shape),
            tuple(map(tuple, inputs)),
            tuple(Piece(tuple(b), tuple(e), tuple((i, tuple(at)) for i, at in sources)) for b, e, sources in pieces),
            fill,
        )
        for name, shape, inputs, pieces, fill in json.loads(path.read_text())
    ]


def read_fetches(name: str, execution_symbol: Any, most: int) -> list[Fetch]:
    """The fetches of an execution graph with the most bytes, one for each geometry; none of what has other dimensions than they."""
    from tofu.mxnet.check.traffic import read_tables

    tables = read_tables(execution_symbol)
    sources_of: dict[int, list[int]] = {}
    own = np.arange(tables.source_along.shape[1])
    is_other = (tables.source_along != own) & ((tables.source_along >= 0) | (tables.source_shape > 1))
    others = set(tables.piece_fetch[tables.source_piece[is_other.any(axis=1)]].tolist())
    for source, piece in enumerate(tables.source_piece.tolist()):
        sources_of.setdefault(piece, []).append(source)
    pieces_of: dict[int, list[int]] = {}
    for piece, fetch in enumerate(tables.piece_fetch.tolist()):
        pieces_of.setdefault(fetch, []).append(piece)
    found: dict[Fetch, None] = {}
    for fetch in np.argsort(-np.prod(tables.fetch_shape, axis=1), kind="stable").tolist():
        if len(found) == most:
            break
        if fetch in others:
            continue
        inputs: dict[tuple[int, Box], int] = {}
        pieces = []
        for piece in pieces_of.get(fetch, ()):
            parts = []
            for source in sources_of[piece]:
                entry = (int(tables.source_node[source]), _box(tables.source_shape[source]))
                parts.append((inputs.setdefault(entry, len(inputs)), _box(tables.source_begin[source])))
            pieces.append(Piece(_box(tables.piece_begin[piece]), _box(tables.piece_extent[piece]), tuple(parts)))
        shapes = tuple(shape for _, shape in inputs)
        if shapes:
            found.setdefault(Fetch(name, _box(tables.fetch_shape[fetch]), shapes, tuple(pieces)))
    return list(found)


def _box(row: Any) -> Box:
    return tuple(int(n) for n in row)


def main() -> None:
    """Search plans for models of the paper, and save their largest fetches."""
    import tofu
    from tests.models.paper import rnn, transformer, wresnet

    models = {
        "wresnet": wresnet(50, 4, 32),
        "rnn": rnn(4, 4096, 128),
        "transformer": transformer(6, 1024, 16, 32, length=128, vocabulary=8192),
    }
    FOLDER.mkdir(exist_ok=True)
    for name, model in models.items():
        symbol = tofu.partition(model.symbol, ngpus=8, algorithm="recursive", **model.shapes)
        save(read_fetches(f"{model.name}, 8 workers", symbol.execution_symbol, most=6), FOLDER / f"{name}.json")


if __name__ == "__main__":
    main()
