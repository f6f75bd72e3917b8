"""MXNet's `.params` files, written and read in pieces, so that the host never holds a whole model, nor a whole tensor.

The format, little-endian: two 64-bit words (0x112, 0), the number of arrays and the arrays, the number of names and the names,
each with its length. An array is its magic number, its storage type, its shape, where it was, its type, and its cells; MXNet
itself writes and reads those.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import IO, Any

import mxnet as mx
import numpy as np

from tofu.errors import TofuError
from tofu.runtime.files import replace_atomically
from tofu.runtime.shards import ShardedTensor

LIST_MAGIC = 0x112
ARRAY_MAGIC = 0xF993FAC9
DENSE = 0
CPU = 1  # the kind of device that MXNet notes beside an array
TYPES = [np.dtype(n) for n in ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")]


def save_shards(path: str, tensors: Mapping[str, ShardedTensor]) -> None:
    """Write the whole tensors under their names, as `mx.nd.save` does, gathered piece by piece."""
    with replace_atomically(path) as file:
        file.write(struct.pack("<QQQ", LIST_MAGIC, 0, len(tensors)))
        for tensor in tensors.values():
            _write_tensor(file, tensor)
        file.write(struct.pack("<Q", len(tensors)))
        for name in tensors:
            encoded = name.encode()
            file.write(struct.pack("<Q", len(encoded)) + encoded)


def _write_tensor(file: IO[bytes], tensor: ShardedTensor) -> None:
    if not tensor.shape or 0 in tensor.shape or np.dtype(tensor.dtype) not in TYPES:
        file.write(tensor.gather().__getstate__()["handle"])  # MXNet has other forms for these
        return
    rank, code = len(tensor.shape), TYPES.index(np.dtype(tensor.dtype))
    file.write(struct.pack(f"<Iii{rank}q", ARRAY_MAGIC, DENSE, rank, *tensor.shape))
    file.write(struct.pack("<iii", CPU, 0, code))
    for piece in tensor.gather_pieces():
        file.write(piece.data)


class ParameterFile(Mapping[str, Any]):
    """The arrays of a `.params` file by name, each read when it is asked for; `shapes` are known beforehand.

    Raises TofuError where the file was cut short or is of another kind.
    """

    def __init__(self, path: str) -> None:
        self.path = os.fspath(path)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._readers: dict[str, Callable[[], Any]] = {}
        """Name -> reads the cells, an NDArray or a part of the file that is mapped into memory."""
        with open(self.path, "rb") as file:
            try:
                entries = _read_entries(file)
            except (struct.error, UnicodeDecodeError) as error:
                raise TofuError(f"{self.path} was cut short, or is no file of parameters: {error}") from error
        if entries is None:  # sparse arrays, or a format of old: MXNet reads it at once
            arrays = mx.nd.load(self.path)
            self.shapes = {name: tuple(array.shape) for name, array in arrays.items()}
            self._readers = {name: partial(arrays.get, name) for name in arrays}
            return
        for name, (shape, dtype, offset) in entries.items():
            self.shapes[name] = shape
            self._readers[name] = partial(self._read, shape, dtype, offset)

    def _read(self, shape: tuple[int, ...], dtype: Any, offset: int) -> Any:
        if shape:
            return np.memmap(self.path, dtype, "r", offset, shape)
        return np.fromfile(self.path, dtype, 1, "", offset)

    def cells(self, name: str) -> Any:
        """What `ShardedTensor.scatter` reads shard by shard: an NDArray, or the cells where they lie in the file."""
        return self._readers[name]()

    def select(self, kind: str) -> ParameterFile:
        """Those whose names begin with `kind:`, without it: "arg" or "aux"."""
        made = object.__new__(ParameterFile)
        made.path, start = self.path, kind + ":"
        made.shapes = {name[len(start) :]: shape for name, shape in self.shapes.items() if name.startswith(start)}
        made._readers = {name[len(start) :]: r for name, r in self._readers.items() if name.startswith(start)}
        return made

    def __getitem__(self, name: str) -> Any:
        cells = self.cells(name)
        return cells if isinstance(cells, mx.nd.NDArray) else mx.nd.array(cells, dtype=cells.dtype)

    def __contains__(self, name: object) -> bool:
        return name in self._readers  # a Mapping would read the array to know

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def _read_entries(file: IO[bytes]) -> dict[str, tuple[tuple[int, ...], Any, int]] | None:
    """Name -> shape, type and offset of the cells; None for a format other than the dense one that MXNet 1.9 writes."""

    def read(form: str) -> tuple[Any, ...]:
        return struct.unpack("<" + form, file.read(struct.calcsize("<" + form)))

    size = os.fstat(file.fileno()).st_size
    magic, _, count = read("QQQ")
    if magic != LIST_MAGIC:
        return None
    found = []
    for _ in range(count):
        magic, storage, rank = read("Iii")
        if magic != ARRAY_MAGIC or storage != DENSE or rank < 1:
            return None
        shape = read(f"{rank}q")
        _, _, code = read("iii")
        if code >= len(TYPES):
            return None
        found.append((shape, TYPES[code], file.tell()))
        file.seek(int(np.prod(shape)) * TYPES[code].itemsize, os.SEEK_CUR)
        if file.tell() > size:
            raise struct.error(f"an array of shape {shape} ends after the file")
    (named,) = read("Q")
    if named != count:
        return None
    names = [read(f"{length}s")[0].decode() for _ in range(named) for length in read("Q")]
    return dict(zip(names, found, strict=True))
