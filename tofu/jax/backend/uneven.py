"""Arrays in overlapping shards, for dimensions that cannot be divided equally among devices.

JAX requires equal shards, so shards are made longer and overlap. On 3 devices, 10 rows become rows 0 to 3, 3 to 6 and 6
to 9. JAX stores these shards side by side, as a *joined array* of 12 rows. `UnevenArray` presents them as the original
array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from tofu.errors import ShapeError, UnsupportedError
from tofu.program.collectives import Layout, find_layout
from tofu.program.lockstep import Box


@dataclass(frozen=True)
class UnevenSharding:
    """A sharding with overlapping shards, which a `NamedSharding` cannot describe.

    Attributes
    ----------
    shape
        Shape of the array.
    part
        Shape of each shard.
    begins
        First positions of the shards in each dimension, such as (0, 3, 6) for 10 rows on 3 devices.
    joined
        Sharding of the joined array, which has the shards side by side.
    """

    shape: tuple[int, ...]
    part: tuple[int, ...]
    begins: tuple[tuple[int, ...], ...]
    joined: NamedSharding

    @property
    def joined_shape(self) -> tuple[int, ...]:
        """Shape of the joined array."""
        return tuple(extent * len(begins) for extent, begins in zip(self.part, self.begins, strict=True))

    def shard_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of each shard. Raise ShapeError if `shape` is not the shape of the array."""
        if tuple(shape) != self.shape:
            raise ShapeError(
                f"shard_shape({tuple(shape)}): this is where an array of shape {self.shape} lies. Give that."
            )
        return self.part

    def find_part(self, index: Sequence[slice]) -> tuple[slice, ...]:
        """Convert a shard's region in the joined array to its region in the original array."""
        joined_region = index[: len(self.part)]  # JAX also indexes the data of random keys
        numbers = [(bounds.start or 0) // extent for bounds, extent in zip(joined_region, self.part, strict=True)]
        starts = [begins[number] for begins, number in zip(self.begins, numbers, strict=True)]
        return tuple(slice(start, start + extent) for start, extent in zip(starts, self.part, strict=True))

    def make_array(self, read: Callable[[tuple[slice, ...]], Any]) -> UnevenArray:
        """Build an array. `read` returns the elements of a region, as in `jax.make_array_from_callback`."""
        joined = jax.make_array_from_callback(self.joined_shape, self.joined, lambda index: read(self.find_part(index)))
        return UnevenArray(joined, self)

    def join(self, array: Any) -> Any:
        """Convert an array to a joined array (its shards side by side)."""
        for d, positions in enumerate(self._joined_positions):
            array = array if positions is None else jnp.take(array, positions, axis=d, mode="clip")
        return array

    def restore(self, joined: Any) -> Any:
        """Convert a joined array to the original array."""
        take: Any = np.take if isinstance(joined, np.ndarray) else jnp.take  # JAX supports mode="clip" for keys too
        for d, positions in enumerate(self._restored_positions):
            joined = joined if positions is None else take(joined, positions, axis=d, mode="clip")
        return joined

    @cached_property
    def join_whole(self) -> Any:
        """The function `join`, compiled by `jax.jit`."""
        return jax.jit(self.join, out_shardings=self.joined)

    @cached_property
    def restore_on_devices(self) -> Any:
        """The function `restore`, compiled by `jax.jit`."""
        return jax.jit(self.restore)

    @cached_property
    def _joined_positions(self) -> list[np.ndarray[Any, Any] | None]:
        return [
            None if len(begins) == 1 else np.concatenate([np.arange(begin, begin + extent) for begin in begins])
            for begins, extent in zip(self.begins, self.part, strict=True)
        ]

    @cached_property
    def _restored_positions(self) -> list[np.ndarray[Any, Any] | None]:
        all_positions: list[np.ndarray[Any, Any] | None] = []
        for begins, part_extent, shape_extent in zip(self.begins, self.part, self.shape, strict=True):
            positions = np.arange(shape_extent)
            shard_numbers = np.searchsorted(begins, positions, side="right") - 1
            all_positions.append(
                None if len(begins) == 1 else shard_numbers * part_extent + positions - np.array(begins)[shard_numbers]
            )
        return all_positions


@dataclass(frozen=True)
class Shard:
    """The region `index` of an array, on a device of this process. Replicas have different `replica_id`s."""

    device: Any
    index: tuple[slice, ...]
    replica_id: int
    data: jax.Array


@dataclass(frozen=True, eq=False)
class UnevenArray:
    """An array in overlapping shards, for devices that cannot divide it equally.

    Partitioned steps take and return such arrays. `np.asarray`, `jnp.asarray`, operators, indices and methods work as
    on a JAX array. The attributes `sharding` and `device` are missing. Unpickling returns an ordinary JAX array.

    Attributes
    ----------
    joined
        A JAX array with the shards side by side. Some elements occur twice.
    parts
        The sharding.
    """

    joined: jax.Array
    parts: UnevenSharding
    __array_priority__ = 100  # NumPy operators defer to this class, as to JAX arrays

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the complete array."""
        return self.parts.shape

    @property
    def dtype(self) -> Any:
        """Type of the elements."""
        return self.joined.dtype

    @property
    def weak_type(self) -> bool:
        """True if the array takes the type of other operands, as a Python number does (JAX's weak type)."""
        return bool(getattr(self.joined, "weak_type", False))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements of the complete array."""
        return prod(self.shape)

    @property
    def is_fully_addressable(self) -> bool:
        """True if all devices of the array belong to this process."""
        return bool(self.joined.is_fully_addressable)

    @property
    def addressable_shards(self) -> list[Shard]:
        """The shards on devices of this process."""
        return [
            Shard(shard.device, self.parts.find_part(shard.index), shard.replica_id, shard.data)
            for shard in self.joined.addressable_shards
        ]

    def is_deleted(self) -> bool:
        """Return True if the array is deleted, because a step has reused its memory."""
        return bool(self.joined.is_deleted())

    def block_until_ready(self) -> UnevenArray:
        """Wait until the array is computed, and return it."""
        self.joined.block_until_ready()
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if not self.is_fully_addressable:
            raise UnsupportedError(
                f"An array of shape {self.shape} has parts on devices of other processes, and cannot be read whole in one. Read its "
                "addressable_shards, or jnp.asarray(...), in all processes, which gathers it."
            )
        return np.asarray(self.parts.restore(np.asarray(self.joined)), dtype)

    def __jax_array__(self) -> jax.Array:
        array: jax.Array = self.parts.restore_on_devices(self.joined)
        return array

    def copy(self) -> UnevenArray:
        """Return a copy in new memory."""
        return replace(self, joined=jnp.copy(self.joined))

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> UnevenArray:
        return self.copy()

    def __getattr__(self, name: str) -> Any:
        is_element_method = name == "at" or (hasattr(np.ndarray, name) and name not in ("device", "to_device"))
        if name.startswith("_") or not is_element_method:
            raise AttributeError(
                f"An array in unequal parts has no attribute {name!r}. jnp.asarray(...) of it is the whole, as an array of JAX's."
            )
        return getattr(jnp.asarray(self), name)

    __hash__ = None  # type: ignore[assignment]  # `==` compares elements

    def __reduce__(self) -> Any:
        return jnp.asarray, (np.asarray(self),)  # devices cannot be pickled

    def __repr__(self) -> str:
        return f"<array of {self.dtype}, shape {self.shape}, in parts of shape {self.parts.part}>"


def _make_method(name: str) -> Any:

    def run(array: UnevenArray, *operands: Any) -> Any:
        return getattr(jnp.asarray(array), name)(*operands)

    return run


_ARITHMETIC = ["add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul"]
_BINARY = [*_ARITHMETIC, "and", "or", "xor", "lshift", "rshift"]
_REFLECTED = [f"r{name}" for name in _BINARY]
_COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
_OTHER_METHODS = ["neg", "pos", "abs", "invert", "round", "getitem", "iter", "len", "bool"]
for _method in (*_BINARY, *_REFLECTED, *_COMPARISONS, *_OTHER_METHODS):
    setattr(UnevenArray, f"__{_method}__", _make_method(f"__{_method}__"))


def find_sharding(
    boxes: Sequence[Box], layout: Layout, factors: Sequence[int], shape: tuple[int, ...], joined: NamedSharding
) -> UnevenSharding | None:
    """Return the sharding of an array in which worker w stores `boxes[w]`. Return None if no shards overlap."""
    if find_layout(boxes, shape, factors) is not None:
        return None
    shard_shape = tuple(end - begin for begin, end in boxes[0])
    begin_by_digits: list[dict[tuple[int, ...], int]] = [{} for _ in shape]
    for worker, digits in enumerate(np.ndindex(*factors)):
        for d, (begin, _) in enumerate(boxes[worker]):
            begin_by_digits[d][tuple(digit for digit, split in zip(digits, layout, strict=True) if split == d)] = begin
    return UnevenSharding(shape, shard_shape, tuple(tuple(begins.values()) for begins in begin_by_digits), joined)
