"""MXNet's `.params` files, written and read in pieces, so that the host never holds a whole model, nor a whole tensor.

Behind the names, where MXNet's reader stops, stands a seal (`seal.py`): a file that was damaged, or that belongs to another step than the
states beside it, is recognised.
"""

from __future__ import annotations

import os
import struct
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import mxnet as mx
import numpy as np

from tofu.errors import TofuError
from tofu.host.writing import replace_atomically
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.checkpoint.array_list import DENSE, LIST_MAGIC, TYPES, V2, V3, Stored, find_arrays
from tofu.mxnet.runtime.checkpoint.seal import Facts, SealedWriter, open_regular, read_seal

CPU = 1  # the kind of device that MXNet notes beside an array


def save_shards(path: str, tensors: Mapping[str, ShardedTensor], steps: int | None = None) -> str:
    """Write the whole tensors under their names, as `mx.nd.save` does, gathered piece by piece; the digest of the file.

    `steps`: how many updates they have had.
    """
    with replace_atomically(path) as raw:
        file = SealedWriter(raw)
        file.write(struct.pack("<QQQ", LIST_MAGIC, DENSE, len(tensors)))
        for tensor in tensors.values():
            _write_tensor(file, tensor)
        file.write(struct.pack("<Q", len(tensors)))
        for name in tensors:
            encoded = name.encode()
            file.write(struct.pack("<Q", len(encoded)) + encoded)
        return file.seal(Facts(steps))


def _write_tensor(file: SealedWriter, tensor: ShardedTensor) -> None:
    if not tensor.shape or 0 in tensor.shape or np.dtype(tensor.dtype) not in TYPES:
        file.write(tensor.gather().__getstate__()["handle"])  # MXNet has other forms for these
        return
    rank, code = len(tensor.shape), TYPES.index(np.dtype(tensor.dtype))
    magic = V3 if mx.util.is_np_shape() else V2  # MXNet refuses to read one under the rules of the other
    file.write(struct.pack(f"<Iii{rank}q", magic, DENSE, rank, *tensor.shape))
    file.write(struct.pack("<iii", CPU, 0, code))
    for piece in tensor.gather_pieces():
        file.write(piece.data)


class ParameterFile(Mapping[str, Any]):
    """The arrays of a `.params` file by name, each read when it is asked for; `shapes` are known beforehand.

    All of the file is read once and compared with its seal; `seal` is None, with a warning, where it has none. The file stays open, so
    that another one under its name is not mistaken for it. Raises TofuError where it was cut short or damaged, or is of another kind.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._file = open_regular(self.path)
        weakref.finalize(self, self._file.close)
        self.seal = read_seal(self._file, self.path)
        entries = self._find()
        self.shapes = {name: stored.shape for name, stored in entries.items()}
        self._readers: dict[str, Callable[[], Any]] = {}
        """Name -> reads the cells, which are mapped into memory."""
        for name, stored in entries.items():
            self._readers[name] = partial(stored.map, self._file) if not stored.indices else self._read_sparse(stored)
        if self.seal is None:
            warn_of_no_seal(self.path)

    def _find(self) -> dict[str, Stored]:
        try:
            entries, end = find_arrays(self._file)
        except ValueError as error:
            raise TofuError(f"{self.path} was cut short, or is no file of parameters: {error}") from error
        size = os.fstat(self._file.fileno()).st_size
        if end != (size if self.seal is None else self.seal.end):
            raise TofuError(
                f"{self.path} was cut short or changed: its arrays end at byte {end:,} of {size:,}, and what follows is not what Tofu "
                "writes. Take a copy of it that is whole, or another epoch."
            )
        return entries

    def _read_sparse(self, stored: Stored) -> Callable[[], Any]:
        try:
            whole = stored.map(self._file)
        except (ValueError, MemoryError) as error:
            raise TofuError(f"{self.path} is no file of parameters: {error}") from error
        return lambda: whole

    def select(self, kind: str) -> ParameterFile:
        """Those whose names begin with `kind:`, without it: "arg" or "aux"."""
        made = object.__new__(ParameterFile)
        made.path, made.seal, start = self.path, self.seal, kind + ":"
        made._file = self._file
        made._whole = self  # type: ignore[attr-defined]  # whose end closes the file
        made.shapes = {name[len(start) :]: shape for name, shape in self.shapes.items() if name.startswith(start)}
        made._readers = {name[len(start) :]: r for name, r in self._readers.items() if name.startswith(start)}
        return made

    def cells(self, name: str) -> Any:
        """What `ShardedTensor.scatter` reads shard by shard: the cells where they lie in the file."""
        return self._readers[name]()

    def __getitem__(self, name: str) -> Any:
        cells = self.cells(name)
        return mx.nd.array(cells, dtype=cells.dtype)

    def __contains__(self, name: object) -> bool:
        return name in self._readers  # a Mapping would read the array to know

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def warn_of_no_seal(path: str) -> None:
    """Say that damage to a file of MXNet's, or of an older Tofu's, cannot be noticed."""
    warnings.warn(
        f"{path} has no checksum, as files of MXNet and Tofu 0.1 have none: damage to its numbers would not be noticed. "
        "Saved anew by Tofu, it has one.",
        stacklevel=5,
    )
