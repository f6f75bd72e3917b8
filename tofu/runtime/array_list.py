"""Where the arrays of a `.params` file lie, found without reading one: what MXNet's own reader would allocate is checked against the
file's size first.

The format, little-endian: two 64-bit words (0x112, 0), the number of arrays and the arrays, the number of names and the names,
each with its length. An array is its magic number, its storage type, its shape, where it was, its type, and its cells. Sparse arrays
and those of older versions of MXNet have other fields; they are walked over, and left to MXNet.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import IO, Any

import numpy as np

from tofu.reading import MOST_DIMENSIONS

LIST_MAGIC = 0x112
V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA  # of MXNet 0.11, of 1.x, and of 1.x under NumPy's rules for shapes
DENSE, AUXILIARY_ARRAYS = 0, {0: 0, 1: 1, 2: 2}  # by storage type: dense, row_sparse, csr
TYPES = [np.dtype(n) for n in ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")]

Unpack = Callable[[str], tuple[Any, ...]]


@dataclass(frozen=True)
class Stored:
    """An array in a file: its cells from byte `offset` on; `is_plain` where they can be read without MXNet."""

    shape: tuple[int, ...]
    dtype: Any
    offset: int
    is_plain: bool


def find_arrays(file: IO[bytes]) -> tuple[dict[str, Stored], int]:
    """Name -> array, and the byte after the last name. Raises ValueError or struct.error for a file of another kind."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)

    def read(form: str) -> tuple[Any, ...]:
        return struct.unpack("<" + form, file.read(struct.calcsize("<" + form)))

    def skip(count: int) -> None:
        if count > size - file.tell():
            raise ValueError(f"an array ends after the file, which has {size:,} bytes")
        file.seek(count, os.SEEK_CUR)

    magic, _, count = read("QQQ")
    if magic != LIST_MAGIC or count > size:
        raise ValueError("it does not begin as such a file does")
    found = [_find_array(file, read, skip) for _ in range(count)]
    (named,) = read("Q")
    if named != count:
        raise ValueError(f"it has {count} arrays and {named} names")
    names = [_read_name(read, size - file.tell()) for _ in range(named)]
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise ValueError(f"it has several arrays of the name {repeated[0]}")
    return dict(zip(names, found, strict=True)), file.tell()


def _read_name(read: Unpack, left: int) -> str:
    (length,) = read("Q")
    if length > left:
        raise ValueError("a name is longer than the file")
    name: bytes = read(f"{length}s")[0]
    return name.decode()


def _find_array(file: IO[bytes], read: Unpack, skip: Callable[[int], None]) -> Stored:
    (magic,) = read("I")
    (storage,) = read("i") if magic in (V2, V3) else (DENSE,)
    if storage not in AUXILIARY_ARRAYS:
        raise ValueError(f"an array has the storage type {storage}")
    count = AUXILIARY_ARRAYS[storage]
    stored = _read_shape(read) if count else None
    shape = _read_shape(read, magic)
    if len(shape) == 0 and magic != V3:  # an array that was never filled: nothing else is written
        return Stored(shape, TYPES[0], file.tell(), is_plain=False)
    read("ii")
    dtype = _read_type(read)
    auxiliary = [(_read_type(read), _read_shape(read)) for _ in range(count)]
    offset = file.tell()
    skip(prod(shape if stored is None else stored) * dtype.itemsize)
    for kind, extents in auxiliary:
        skip(prod(extents) * kind.itemsize)
    return Stored(shape, dtype, offset, is_plain=magic == V2 and storage == DENSE)


def _read_shape(read: Unpack, magic: int = V2) -> tuple[int, ...]:
    rank = read("I")[0] if magic in (V1, V2, V3) else magic  # the oldest arrays begin with their rank
    if rank > MOST_DIMENSIONS:
        raise ValueError(f"an array has {rank} dimensions")
    shape = read(f"{rank}{'q' if magic in (V1, V2, V3) else 'I'}")
    if any(extent < 0 for extent in shape):
        raise ValueError(f"an array has the shape {shape}")
    return shape


def _read_type(read: Unpack) -> Any:
    (code,) = read("i")
    if not 0 <= code < len(TYPES):
        raise ValueError(f"an array has the type {code}")
    return TYPES[code]
