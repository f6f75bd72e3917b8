"""Find the arrays in a `.params` file of MXNet. Sizes are checked before memory is allocated.

The file is little-endian. It consists of

- two 64-bit words, 0x112 and 0,
- the number of arrays, and the arrays,
- the number of names, and the names with their lengths.

An array consists of a magic number, storage type, shape, context, element type and elements. A sparse array also has
the indices of its stored elements, and their shape. Older versions of MXNet wrote fewer fields.
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
DENSE, INDEX_ARRAY_COUNTS = 0, {0: 0, 1: 1, 2: 2}  # number of index arrays by storage type: dense, row_sparse, csr
TYPES = [np.dtype(n) for n in ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")]

MOST_SPARSE_BYTES = 2**36  # bytes of a sparse array after its conversion to dense

Unpack = Callable[[str], tuple[Any, ...]]  # reads the next values of the file, in a format of `struct`


@dataclass(frozen=True)
class StoredArray:
    """Position, shape and type of an array in a file.

    The elements start at byte `offset`. A sparse array also has `indices`, the positions of its stored elements.
    """

    shape: tuple[int, ...]
    dtype: Any
    offset: int
    indices: tuple[StoredArray, ...] = ()

    def map(self, file: IO[bytes]) -> Any:
        """Return the elements as a memory-mapped array. Sparse arrays are read into memory as dense arrays.

        Raise ValueError for wrong indices.
        """
        if self.indices:
            return self._read_dense(file)
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        return np.memmap(file, self.dtype, "r", self.offset, self.shape)

    def _read_dense(self, file: IO[bytes]) -> Any:
        # A row_sparse array has the numbers of its rows; a csr array has the bounds of its rows, and column numbers.
        *row_bounds, positions = (index.map(file) for index in self.indices)
        is_csr = bool(row_bounds)
        stored_shape = (len(positions), *(() if is_csr else self.shape[1:]))
        elements = StoredArray(stored_shape, self.dtype, self.offset).map(file)
        dense = np.zeros(self.shape, self.dtype)
        extent = self.shape[-1 if is_csr else 0]
        if len(positions) and not 0 <= positions.min() <= positions.max() < extent:
            raise ValueError(f"a sparse array of the shape {self.shape} has elements outside of it")
        if not is_csr:
            dense[positions] = elements
            return dense
        counts = np.diff(row_bounds[0].astype(np.int64))
        if (counts < 0).any() or counts.sum() != len(positions) or len(counts) != self.shape[0]:
            raise ValueError(f"a sparse array of the shape {self.shape} has inconsistent rows")
        dense[np.repeat(np.arange(len(counts)), counts), positions] = elements
        return dense


def find_arrays(file: IO[bytes]) -> tuple[dict[str, StoredArray], int]:
    """Return the arrays of a file by name, and the position at which the list of names ends.

    Raise ValueError if the file is damaged or not a `.params` file.
    """
    size = os.fstat(file.fileno()).st_size
    file.seek(0)

    def read(struct_format: str) -> tuple[Any, ...]:
        layout = struct.Struct("<" + struct_format)
        data = file.read(layout.size)
        if len(data) < layout.size:
            raise ValueError(f"it ends after {size:,} bytes, too early")
        return layout.unpack(data)

    def skip(count: int) -> None:
        if count > size - file.tell():
            raise ValueError(f"an array exceeds the file, which has {size:,} bytes")
        file.seek(count, os.SEEK_CUR)

    magic, _, count = read("QQQ")
    if magic != LIST_MAGIC or count > size:
        raise ValueError("it does not begin like one")
    arrays = [_find_array(file, read, skip) for _ in range(count)]
    (name_count,) = read("Q")
    if name_count != count:
        raise ValueError(f"it has {count} arrays and {name_count} names")
    names = [_read_name(read, size - file.tell()) for _ in range(name_count)]
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise ValueError(f"it has several arrays of the name {repeated[0]}")
    return dict(zip(names, arrays, strict=True)), file.tell()


def _read_name(read: Unpack, remaining_bytes: int) -> str:
    (length,) = read("Q")
    if length > remaining_bytes:
        raise ValueError("a name is longer than the file")
    name: bytes = read(f"{length}s")[0]
    return name.decode()


def _find_array(file: IO[bytes], read: Unpack, skip: Callable[[int], None]) -> StoredArray:
    (magic,) = read("I")
    (storage,) = read("i") if magic in (V2, V3) else (DENSE,)
    if storage not in INDEX_ARRAY_COUNTS:
        raise ValueError(f"an array has the storage type {storage}")
    index_count = INDEX_ARRAY_COUNTS[storage]
    if index_count:
        _read_shape(read)  # the number of stored elements, which MXNet may write before it is known
    shape = _read_shape(read, magic)
    if len(shape) == 0 and magic != V3:
        raise ValueError("an array was never filled")
    read("ii")  # the context
    dtype = _read_type(read)
    index_types = [(_read_type(read), _read_shape(read)) for _ in range(index_count)]
    has_wrong_indices = any(len(index_shape) != 1 or index_type.kind != "i" for index_type, index_shape in index_types)
    if has_wrong_indices or (index_count == 2 and len(shape) != 2):
        raise ValueError(f"a sparse array of the shape {shape} has indices of a wrong type or rank")
    offset = file.tell()
    stored_shape = (*index_types[-1][1], *(shape[1:] if index_count == 1 else ())) if index_count else shape
    skip(prod(stored_shape) * dtype.itemsize)
    indices = []
    for index_type, index_shape in index_types:
        indices.append(StoredArray(index_shape, index_type, file.tell()))
        skip(prod(index_shape) * index_type.itemsize)
    if index_count and prod(shape) * dtype.itemsize > MOST_SPARSE_BYTES:
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
