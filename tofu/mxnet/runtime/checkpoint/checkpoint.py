"""Write and read MXNet's `.params` files part by part, so that the host never stores a whole model or tensor.

The file ends with a checksum and the number of the training step (`seal.py`). MXNet does not read them. Tofu uses them
to find damaged files, and optimizer states of another step.
"""

from __future__ import annotations

import os
import struct
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import Any

import mxnet as mx
import numpy as np

from tofu.errors import TofuError
from tofu.host.writing import replace_atomically
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.checkpoint.array_list import DENSE, LIST_MAGIC, TYPES, V2, V3, StoredArray, find_arrays
from tofu.mxnet.runtime.checkpoint.seal import Facts, SealedWriter, open_regular, read_seal

CPU = 1  # MXNet's code of the array's device type


def save_shards(path: str, tensors: Mapping[str, ShardedTensor], steps: int | None = None) -> str:
    """Write tensors by name to a file in the format of `mx.nd.save`. Return a digest (checksum).

    `steps` is the optimizer's number of updates so far.
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
        file.write(tensor.gather().__getstate__()["handle"])  # MXNet writes these in another form
        return
    rank, code = len(tensor.shape), TYPES.index(np.dtype(tensor.dtype))
    magic = V3 if mx.util.is_np_shape() else V2  # each can only be read with the same setting
    file.write(struct.pack(f"<Iii{rank}q", magic, DENSE, rank, *tensor.shape))
    file.write(struct.pack("<iii", CPU, 0, code))
    for piece in tensor.gather_pieces():
        file.write(piece.data)


class ParameterFile(Mapping[str, Any]):
    """The arrays of a `.params` file by name. An array is read when it is accessed.

    A file without a checksum causes a warning. Raise TofuError if the file is damaged or not a `.params` file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._file = open_regular(self.path)
        weakref.finalize(self, self._file.close)
        self.seal = read_seal(self._file, self.path)
        arrays = self._find_arrays()
        self.shapes = {name: array.shape for name, array in arrays.items()}
        self._whole: ParameterFile | None = None
        self._readers: dict[str, Callable[[], Any]] = {}  # name -> function that returns the array, memory-mapped
        for name, array in arrays.items():
            self._readers[name] = partial(array.map, self._file) if not array.indices else self._read_sparse(array)
        if self.seal is None:
            warn_of_no_seal(self.path)

    def _find_arrays(self) -> dict[str, StoredArray]:
        try:
            arrays, end = find_arrays(self._file)
        except ValueError as error:
            raise TofuError(f"{self.path} was cut short, or is no file of parameters: {error}") from error
        size = os.fstat(self._file.fileno()).st_size
        if end != (size if self.seal is None else self.seal.end):
            raise TofuError(
                f"{self.path} was cut short or changed: its arrays end at byte {end:,} of {size:,}, and no seal of Tofu follows. "
                "Use an undamaged copy, or another epoch."
            )
        return arrays

    def _read_sparse(self, array: StoredArray) -> Callable[[], Any]:
        try:
            elements = array.map(self._file)
        except (ValueError, MemoryError) as error:
            raise TofuError(f"{self.path} is no file of parameters: {error}") from error
        return lambda: elements

    def select(self, kind: str) -> ParameterFile:
        """Return only the parameters ("arg"), or only auxiliary states such as moving means ("aux").

        Names lose this prefix.
        """
        selection, prefix = copy(self), kind + ":"
        selection._whole = self  # keeps the file open
        names = {name.removeprefix(prefix): name for name in self.shapes if name.startswith(prefix)}
        selection.shapes = {short_name: self.shapes[name] for short_name, name in names.items()}
        selection._readers = {short_name: self._readers[name] for short_name, name in names.items()}
        return selection

    def elements(self, name: str) -> Any:
        """Return an array as a memory-mapped array, so that parts of it can be read."""
        return self._readers[name]()

    def __getitem__(self, name: str) -> Any:
        elements = self.elements(name)
        return mx.nd.array(elements, dtype=elements.dtype)

    def __contains__(self, name: object) -> bool:
        return name in self._readers  # Mapping.__contains__ would read the array

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def warn_of_no_seal(path: str) -> None:
    """Warn that a file has no checksum, like files of MXNet and Tofu 0.1."""
    warnings.warn(
        f"{path} has no checksum, like all files of MXNet and Tofu 0.1: damage to its numbers would not be noticed. "
        "Save it again with Tofu to add one.",
        stacklevel=5,
    )
