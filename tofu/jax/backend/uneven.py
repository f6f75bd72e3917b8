"""Arrays of which each device has a part, though their dimensions have no equal ones: parts are rounded up and overlap.

JAX has arrays of equal parts alone. What it is given is the parts, side by side: of 10 rows on 3 devices, rows 0 to 3, 3 to 6 and 6 to 9,
which are 12. The same cell in two parts has the same value. `UnevenArray` shows them as the array that they are of.
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
    """Where the parts of an array of a `shape` lie. Instead of a `NamedSharding` where the devices cannot share it equally.

    Attributes
    ----------
    shape
        That of the array.
    part
        The shape of each part.
    begins
        By dimension: where its parts begin.
    joined
        The sharding of the parts side by side.
    """

    shape: tuple[int, ...]
    part: tuple[int, ...]
    begins: tuple[tuple[int, ...], ...]
    joined: NamedSharding

    @property
    def joined_shape(self) -> tuple[int, ...]:
        """The shape of the parts side by side."""
        return tuple(extent * len(begins) for extent, begins in zip(self.part, self.begins, strict=True))

    def shard_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """That of each device's part, as `jax.sharding.Sharding` has it. Raises ShapeError unless `shape` is that of the array."""
        if tuple(shape) != self.shape:
            raise ShapeError(
                f"shard_shape({tuple(shape)}): this is where an array of shape {self.shape} lies. Give that."
            )
        return self.part

    def find_part(self, index: Sequence[slice]) -> tuple[slice, ...]:
        """The cells of the array that a part has, of which `index` are those of the parts side by side."""
        own = index[: len(self.part)]  # of random keys JAX indexes the numbers that they are of, too
        numbers = [(one.start or 0) // extent for one, extent in zip(own, self.part, strict=True)]
        starts = [begins[number] for begins, number in zip(self.begins, numbers, strict=True)]
        return tuple(slice(start, start + extent) for start, extent in zip(starts, self.part, strict=True))

    def make_array(self, read: Callable[[tuple[slice, ...]], Any]) -> UnevenArray:
        """The array, of whose cells `read` gives those of a part: as `jax.make_array_from_callback` makes others."""
        joined = jax.make_array_from_callback(self.joined_shape, self.joined, lambda index: read(self.find_part(index)))
        return UnevenArray(joined, self)

    def join(self, array: Any) -> Any:
        """The parts side by side, of an array that may be a traced one."""
        for d, cells in enumerate(self._sources):
            array = array if cells is None else jnp.take(array, cells, axis=d, mode="clip")
        return array

    def restore(self, joined: Any) -> Any:
        """The array again. NumPy's, where the parts are."""
        take: Any = np.take if isinstance(joined, np.ndarray) else jnp.take  # of JAX's, clipping is what keys have too
        for d, cells in enumerate(self._owners):
            joined = joined if cells is None else take(joined, cells, axis=d, mode="clip")
        return joined

    @cached_property
    def join_whole(self) -> Any:
        """The same of an array that all devices have all of, or may have."""
        return jax.jit(self.join, out_shardings=self.joined)

    @cached_property
    def restore_on_devices(self) -> Any:
        """As `restore`, of what lies on devices."""
        return jax.jit(self.restore)

    @cached_property
    def _sources(self) -> list[np.ndarray[Any, Any] | None]:
        """By dimension: which cell of the array each cell of the parts is; None where there is one part."""
        return [
            None if len(begins) == 1 else np.concatenate([np.arange(begin, begin + extent) for begin in begins])
            for begins, extent in zip(self.begins, self.part, strict=True)
        ]

    @cached_property
    def _owners(self) -> list[np.ndarray[Any, Any] | None]:
        """By dimension: where in the parts each cell of the array is, in the last one that has it."""
        found: list[np.ndarray[Any, Any] | None] = []
        for begins, extent, whole in zip(self.begins, self.part, self.shape, strict=True):
            cells = np.arange(whole)
            numbers = np.searchsorted(begins, cells, side="right") - 1
            found.append(None if len(begins) == 1 else numbers * extent + cells - np.array(begins)[numbers])
        return found


@dataclass(frozen=True)
class Shard:
    """A part on a device of this process: `index` is that of its cells in the array. Those of one part are numbered by `replica_id`."""

    device: Any
    index: tuple[slice, ...]
    replica_id: int
    data: jax.Array


@dataclass(frozen=True, eq=False)
class UnevenArray:
    """An array in parts that overlap, as a step takes and returns what its devices cannot share equally.

    It is read like an array: `np.asarray` and `jnp.asarray` give the whole of it, the latter on the devices, as do operators, indices and
    the methods of arrays that say nothing of where these lie (`sum`, `reshape`, `at`). Copied, it stays in parts; pickled, it is whole.

    Attributes
    ----------
    joined
        The parts side by side. Some cells of the array are in two of them.
    parts
        Where they lie.
    """

    joined: jax.Array
    parts: UnevenSharding
    __array_priority__ = 100  # arrays of NumPy leave what they do with it to it, as with arrays of JAX

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the whole."""
        return self.parts.shape

    @property
    def dtype(self) -> Any:
        """Of each cell."""
        return self.joined.dtype

    @property
    def weak_type(self) -> bool:
        """Whether its type gives way to others, as that of Python's numbers does."""
        return bool(getattr(self.joined, "weak_type", False))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of cells of the whole."""
        return prod(self.shape)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all parts are on devices of this process."""
        return bool(self.joined.is_fully_addressable)

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts on devices of this process."""
        return [
            Shard(one.device, self.parts.find_part(one.index), one.replica_id, one.data)
            for one in self.joined.addressable_shards
        ]

    def is_deleted(self) -> bool:
        """Whether it was given up to a step (donate_argnums)."""
        return bool(self.joined.is_deleted())

    def block_until_ready(self) -> UnevenArray:
        """Itself, once it is computed."""
        self.joined.block_until_ready()
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if not self.is_fully_addressable:
            raise UnsupportedError(
                f"An array of shape {self.shape} has parts on devices of other processes, and cannot be read whole in one. Read its "
                "addressable_shards, or jnp.asarray(...), in all processes, which gathers it."
            )
        whole = self.parts.restore(np.asarray(self.joined))
        return np.asarray(whole, dtype)

    def __jax_array__(self) -> jax.Array:
        whole: jax.Array = self.parts.restore_on_devices(self.joined)
        return whole

    def copy(self) -> UnevenArray:
        """In memory of its own."""
        return replace(self, joined=jnp.copy(self.joined))

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> UnevenArray:
        return self.copy()

    def __getattr__(self, name: str) -> Any:
        is_of_cells = name == "at" or (hasattr(np.ndarray, name) and name not in ("device", "to_device"))
        if name.startswith("_") or not is_of_cells:
            raise AttributeError(
                f"An array in unequal parts has no attribute {name!r}. jnp.asarray(...) of it is the whole, as an array of JAX's."
            )
        return getattr(jnp.asarray(self), name)

    __hash__ = None  # type: ignore[assignment]  # as of other arrays, which `==` compares cell by cell

    def __reduce__(self) -> Any:
        return jnp.asarray, (np.asarray(self),)  # as other arrays: devices are not pickled

    def __repr__(self) -> str:
        return f"<array of {self.dtype}, shape {self.shape}, in parts of shape {self.parts.part}>"


def _of_whole(name: str) -> Any:
    def run(array: UnevenArray, *others: Any) -> Any:
        return getattr(jnp.asarray(array), name)(*others)

    return run


_BINARY = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "divmod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
)
_OTHERS = ("neg", "pos", "abs", "invert", "round", "getitem", "iter", "len", "bool")
for _name in (*_BINARY, *(f"r{name}" for name in _BINARY), *_OTHERS, "eq", "ne", "lt", "le", "gt", "ge"):
    setattr(UnevenArray, f"__{_name}__", _of_whole(f"__{_name}__"))


def find_sharding(
    boxes: Sequence[Box], layout: Layout, factors: Sequence[int], shape: tuple[int, ...], joined: NamedSharding
) -> UnevenSharding | None:
    """Return where overlapping shards, the `boxes` of a `layout`, are placed; None if the shards are equal and do not overlap."""
    if find_layout(boxes, shape, factors) is not None:
        return None
    part = tuple(end - begin for begin, end in boxes[0])
    begins: list[dict[tuple[int, ...], int]] = [{} for _ in shape]
    for worker, digits in enumerate(np.ndindex(*factors)):
        for d, (begin, _) in enumerate(boxes[worker]):
            begins[d][tuple(digit for digit, split in zip(digits, layout, strict=True) if split == d)] = begin
    return UnevenSharding(shape, part, tuple(tuple(each.values()) for each in begins), joined)
