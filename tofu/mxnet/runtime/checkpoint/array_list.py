"""Index of the arrays in a `.params` file. Sizes are checked before anything is allocated.

The file is little-endian. It has two 64-bit words (0x112, 0), the number of arrays, the arrays, the number of names, and
the names with their lengths. An array is its magic number, storage type, shape, context, element type and elements.
Older versions of MXNet wrote fewer fields. Sparse arrays also have the shape of the stored elements, and their indices.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import IO, Any

import numpy as np

from tofu.validation import MOST_DIMENSIONS

LIST_MAGIC = 0x112
V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA  # magic numbers of MXNet 0.11, 1.x, and 1.x with NumPy's shapes
DENSE, AUXILIARY_ARRAYS = 0, {0: 0, 1: 1, 2: 2}  # number of index arrays by storage type: dense, row_sparse, csr
TYPES = [np.dtype(n) for n in ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")]

LARGEST_SPARSE = 2**36  # most bytes of a sparse array in dense form

Unpack = Callable[[str], tuple[Any, ...]]


@dataclass(frozen=True)
class StoredArray:
    """Array in a file, whose elements start at byte `offset`.

    A sparse array has `indices`, and only its non-zero elements or rows are in the file.
    """

    shape: tuple[int, ...]
    dtype: Any
    offset: int
    indices: tuple[StoredArray, ...] = ()

    def map(self, file: IO[bytes]) -> Any:
        """Return the elements, memory-mapped. A sparse array is read into memory in dense form.

        Raises ValueError for wrong indices.
        """
        if self.indices:
            return self._fill(file)
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        return np.memmap(file, self.dtype, "r", self.offset, self.shape)

    def _fill(self, file: IO[bytes]) -> Any:
        *bounds, places = (index.map(file) for index in self.indices)
        rest = () if bounds else self.shape[1:]
        cells = StoredArray((len(places), *rest), self.dtype, self.offset).map(file)
        whole = np.zeros(self.shape, self.dtype)
        extent = self.shape[-1 if bounds else 0]
        if len(places) and not 0 <= places.min() <= places.max() < extent:
            raise ValueError(f"a sparse array of the shape {self.shape} has elements outside of it")
        if not bounds:
            whole[places] = cells
            return whole
        counts = np.diff(bounds[0].astype(np.int64))
        if (counts < 0).any() or counts.sum() != len(places) or len(counts) != self.shape[0]:
            raise ValueError(f"a sparse array of the shape {self.shape} has inconsistent rows")
        whole[np.repeat(np.arange(len(counts)), counts), places] = cells
        return whole


def find_arrays(file: IO[bytes]) -> tuple[dict[str, StoredArray], int]:
    """Return name -> array, and the position after the last name. Raise ValueError for another kind of file."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)

    def read(form: str) -> tuple[Any, ...]:
        text = file.read(struct.calcsize("<" + form))
        if len(text) < struct.calcsize("<" + form):
            raise ValueError(f"it ends after {size:,} bytes, too early")
        return struct.unpack("<" + form, text)

    def skip(count: int) -> None:
        if count > size - file.tell():
            raise ValueError(f"an array exceeds the file, which has {size:,} bytes")
        file.seek(count, os.SEEK_CUR)

    magic, _, count = read("QQQ")
    if magic != LIST_MAGIC or count > size:
        raise ValueError("it does not begin like one")
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


def _find_array(file: IO[bytes], read: Unpack, skip: Callable[[int], None]) -> StoredArray:
    (magic,) = read("I")
    (storage,) = read("i") if magic in (V2, V3) else (DENSE,)
    if storage not in AUXILIARY_ARRAYS:
        raise ValueError(f"an array has the storage type {storage}")
    count = AUXILIARY_ARRAYS[storage]
    if count:
        _read_shape(read)  # of the stored elements; MXNet may write it before it is known
    shape = _read_shape(read, magic)
    if len(shape) == 0 and magic != V3:
        raise ValueError("an array was never filled")
    read("ii")
    dtype = _read_type(read)
    kinds = [(_read_type(read), _read_shape(read)) for _ in range(count)]
    if any(len(extents) != 1 or kind.kind != "i" for kind, extents in kinds) or (count == 2 and len(shape) != 2):
        raise ValueError(f"a sparse array of the shape {shape} has indices of a wrong type or rank")
    offset = file.tell()
    stored = (*kinds[-1][1], *(shape[1:] if count == 1 else ())) if count else shape
    skip(prod(stored) * dtype.itemsize)
    indices = []
    for kind, extents in kinds:
        indices.append(StoredArray(extents, kind, file.tell()))
        skip(prod(extents) * kind.itemsize)
    if count and prod(shape) * dtype.itemsize > LARGEST_SPARSE:
        raise ValueError(f"a sparse array has the shape {shape}, and would fill {prod(shape) * dtype.itemsize:,} bytes")
    return StoredArray(shape, dtype, offset, tuple(indices))


def _read_shape(read: Unpack, magic: int = V2) -> tuple[int, ...]:
    rank = read("I")[0] if magic in (V1, V2, V3) else magic  # the oldest arrays begin with their number of dimensions
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
