"""Arrays that are split over workers, with the interface of `mx.nd.NDArray`. MXNet's optimizers get such arrays.

A sharded array has the shape of the whole tensor, but operators run on the shards of each worker
(`tofu/mxnet/runtime/optimizer/shardwise.py`).
"""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np

from tofu.errors import UnsupportedError
from tofu.mxnet.runtime.arrays.shards import ShardedTensor


class ShardedContext(mx.Context):  # type: ignore[misc]  # MXNet is untyped
    """A device (MXNet context) for new arrays, which get the same split as `layout`."""

    def __init__(self, layout: ShardedTensor) -> None:
        super().__init__("cpu", 0)
        self.layout = layout


class ShardedArray(mx.nd.NDArray):  # type: ignore[misc]  # MXNet is untyped
    """An NDArray that is stored as shards on several devices."""

    def __init__(self, tensor: ShardedTensor) -> None:
        self.tensor = tensor
        self.writable = True

    @property
    def handle(self) -> None:
        """Raise UnsupportedError, because no single pointer exists."""
        raise UnsupportedError(
            "This use of an array is not possible for shards, for example a reshaped view in an optimizer, or an operator outside of it. "
            "Copy it with array.asnumpy() and write array[:] = numbers, or train with mx.mod.Module over the partitioned symbol, whose "
            "arrays are gathered when they are read."
        )

    def __del__(self) -> None:
        """Do nothing: the shards free themselves."""

    @property
    def layout(self) -> ShardedTensor:
        """The shards. Their values may be outdated."""
        return self.tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole tensor."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions of the whole tensor."""
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        """Number of elements of the whole tensor."""
        return int(np.prod(self.layout.shape))

    @property
    def dtype(self) -> Any:
        """Type of the elements, as a NumPy type."""
        return np.dtype(self.layout.dtype).type

    @property
    def stype(self) -> str:
        """Storage type: always "default" (dense)."""
        return "default"

    @property
    def context(self) -> Any:
        """Context for new arrays that are split like this array."""
        return ShardedContext(self.tensor)

    ctx = context

    def _gather(self) -> Any:
        return self.tensor.gather()

    def asnumpy(self) -> Any:
        """Return the whole tensor as a NumPy array."""
        return self._gather().asnumpy()

    def wait_to_read(self) -> None:
        """Wait until all shards have been computed."""
        for array in self.tensor.arrays:
            array.wait_to_read()

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Return a copy of another type. It is split like this array."""
        return self if not copy and np.dtype(dtype) == self.dtype else mx.nd.cast(self, dtype=dtype)

    def copy(self) -> ShardedArray:
        """Return a copy of all shards on the same devices."""
        tensor = self.tensor
        return ShardedArray(tensor.like(tensor.shape, tensor.dtype, [array.copy() for array in tensor.arrays]))

    def copyto(self, other: Any) -> Any:
        """Copy the values into another array, or to a device."""
        if isinstance(other, mx.Context):
            return self.copy() if isinstance(other, ShardedContext) else self.tensor.gather().as_in_context(other)
        if not isinstance(other, ShardedArray):
            self.tensor.gather().copyto(other)
        elif other.tensor.matches(self.tensor):
            for shard, other_shard in zip(self.tensor.arrays, other.tensor.arrays, strict=True):
                shard.copyto(other_shard)
        else:
            other.tensor.scatter(self.tensor.gather())
        return other

    def as_in_context(self, context: Any) -> Any:
        """Return this array, because the shards stay on their devices."""
        return self

    def __getitem__(self, key: Any) -> Any:
        """Return the selected elements as an array on the host. `array[:]` is the array itself."""
        return self if is_everything(key) else self.tensor.gather()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set the elements that `key` selects. This is slow unless `key` selects all."""
        if value is self:
            return
        if is_everything(key) and isinstance(value, ShardedArray):
            value.copyto(self)
        elif is_everything(key) and np.ndim(value) == 0 and not isinstance(value, mx.nd.NDArray):
            for array in self.tensor.arrays:
                array[:] = value
        else:
            whole = self.tensor.gather()
            whole[key] = value
            self.tensor.scatter(whole)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the whole tensor as an ordinary NDArray."""
        return mx.nd.NDArray, (None,), self._gather().__getstate__()

    def __repr__(self) -> str:
        return f"<ShardedArray {self.tensor!r}>"


def is_everything(key: Any) -> bool:
    """Return True if a key selects the whole array, as `:` and `...` do."""
    return key is Ellipsis or (isinstance(key, slice) and key == slice(None))
