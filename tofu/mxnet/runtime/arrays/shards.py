"""Tensors that are split over the workers' devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt

from tofu import _mxnet
from tofu.errors import ShapeError

Region = tuple[tuple[int, int], ...]
MOST_SLICED_DIMENSIONS = 5  # largest number of dimensions that MXNet's kernels can slice
PIECE_BYTES = 1 << 22
"""Largest number of bytes that the host reads or writes at once, to save memory."""


class ShardedTensor:
    """A tensor that is split over workers. Each worker stores a shard.

    Parameters
    ----------
    name, shape, dtype
        Name, shape and type of the whole tensor.
    regions
        The region that each worker stores, as an array [workers, dimensions, (begin, end)]. Regions may repeat.
    contexts
        The workers' devices.
    arrays
        The shards. By default, zeros are allocated at the first use.

    Attributes
    ----------
    source
        Number of writes to the whole array before its last copy to the shards, and its digest or None at that moment.
        If they differ later, the array has changed.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        regions: npt.NDArray[np.int64] | Sequence[Region],
        contexts: Sequence[Any],
        arrays: Sequence[Any] | None = None,
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.regions: tuple[Region, ...] = tuple(tuple((int(b), int(e)) for b, e in region) for region in regions)
        self.contexts = tuple(contexts)
        self._arrays = None if arrays is None else tuple(arrays)
        self.source: tuple[int, int | None] | None = None

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Each worker's shard, on the worker's device."""
        if self._arrays is None:
            self._arrays = tuple(
                mx.nd.zeros(tuple(end - begin for begin, end in region), ctx=context, dtype=self.dtype)
                for region, context in zip(self.regions, self.contexts, strict=True)
            )
        return self._arrays

    def matches(self, other: ShardedTensor) -> bool:
        """Return True if `other` has the same shape, type, devices and split."""
        attributes = ("shape", "dtype", "regions", "contexts")
        return all(getattr(self, attribute) == getattr(other, attribute) for attribute in attributes)

    def like(self, shape: tuple[int, ...], dtype: Any, arrays: Sequence[Any] | None = None) -> ShardedTensor:
        """Return a tensor that is split like this tensor. Each extent of `shape` must be 1 or this tensor's extent."""
        if not self.is_like(shape):
            raise ShapeError(f"{self.name} has shape {self.shape}; {tuple(shape)} cannot have the same layout.")
        regions = [
            tuple(
                span if extent == whole else (0, 1)
                for span, extent, whole in zip(region, shape, self.shape, strict=True)
            )
            for region in self.regions
        ]
        return ShardedTensor(self.name, tuple(shape), np.dtype(dtype).name, regions, self.contexts, arrays)

    def is_like(self, shape: Sequence[int]) -> bool:
        """Return True if each extent of `shape` is 1, or equal to the extent of this tensor."""
        return len(shape) == len(self.shape) and all(
            extent in (1, whole) for extent, whole in zip(shape, self.shape, strict=True)
        )

    def zeros_like(self) -> ShardedTensor:
        """Return zeros that are split like this tensor."""
        return self.like(self.shape, self.dtype)

    def in_layout_of(self, other: ShardedTensor) -> ShardedTensor:
        """Return this tensor with the split and type of `other`. It is copied only if necessary."""
        if self.matches(other):
            return self
        copied = other.zeros_like()
        copied.scatter(self.gather())
        return copied

    def add(self, other: ShardedTensor) -> None:
        """Add `other`, a tensor of the same shape, to this one."""
        for shard, addend in zip(self.arrays, other.in_layout_of(self).arrays, strict=True):
            shard += addend

    @cached_property
    def owners(self) -> tuple[int, ...]:
        """Workers that together store the whole tensor. Of workers with the same region, only the first is listed."""
        worker_by_region: dict[Region, int] = {}
        for worker, region in enumerate(self.regions):
            worker_by_region.setdefault(region, worker)
        return tuple(worker_by_region.values())

    def list_distinct(self) -> list[tuple[Region, list[Any]]]:
        """Return each distinct region with the shards of all workers that store it."""
        shards: dict[Region, list[Any]] = {}
        for region, shard in zip(self.regions, self.arrays, strict=True):
            shards.setdefault(region, []).append(shard)
        return list(shards.items())

    def scatter(self, whole: Any) -> None:
        """Copy a whole array into the shards, and convert its type.

        `whole` is an NDArray or anything that NumPy can read. Large arrays are copied in small blocks to save memory.
        """
        whole = as_legacy(whole) if isinstance(whole, mx.nd.NDArray) else np.asanyarray(whole)
        if tuple(whole.shape) != self.shape:
            raise ShapeError(
                f"{self.name}: the array given has shape {tuple(whole.shape)}, the model was bound with {self.shape}."
            )
        if isinstance(whole, mx.nd.NDArray) and whole.stype != "default":
            whole = whole.tostype("default")  # slices and casts need dense storage
        if isinstance(whole, mx.nd.NDArray) and np.dtype(whole.dtype) != np.dtype(self.dtype):
            whole = whole.astype(self.dtype)
        for region, shards in self.list_distinct():
            self._scatter_region(whole, region, shards)

    def _scatter_region(self, whole: Any, region: Region, shards: Sequence[Any]) -> None:
        extents = tuple(end - begin for begin, end in region)
        pieces = list(list_pieces(extents, np.dtype(self.dtype).itemsize))
        for piece in pieces:  # a region of the shard
            piece_of_whole = tuple((b + begin, b + end) for (begin, end), (b, _) in zip(piece, region, strict=True))
            elements = self._read_region(whole, piece_of_whole)
            for shard in shards:
                paste(elements, shard, piece) if len(pieces) > 1 else elements.copyto(shard)
            if len(pieces) > 1:  # otherwise all pieces together would take the memory of a whole tensor
                for shard in shards:
                    shard.wait_to_read()

    def _read_region(self, whole: Any, region: Region) -> Any:
        if isinstance(whole, mx.nd.NDArray):
            return cut(whole, region)
        return mx.nd.array(whole[tuple(slice(*span) for span in region)], dtype=self.dtype)

    def gather(self, out: Any | None = None) -> Any:
        """Assemble the whole array in `out`, by default a new array on the host. Return it."""
        if out is not None and out.stype != "default":
            self.gather().tostype(out.stype).copyto(out)
            return out
        if out is None:
            out = mx.nd.empty(self.shape, ctx=mx.cpu(0), dtype=self.dtype)
        for worker in self.owners:
            paste(self.arrays[worker], as_legacy(out), self.regions[worker])
        return out

    def gather_region(self, region: Region) -> npt.NDArray[Any]:
        """Return the elements of a region as a NumPy array. Raise ShapeError for a region outside the tensor."""
        spans = [tuple(span) for span in region]
        if len(spans) != len(self.shape) or any(
            not 0 <= begin <= end <= extent for (begin, end), extent in zip(spans, self.shape, strict=True)
        ):
            raise ShapeError(
                f"{self.name} has the shape {self.shape}, and the region {spans} is not inside it. "
                "Give (begin, end) for each dimension, with 0 <= begin <= end <= extent."
            )
        elements = np.empty([end - begin for begin, end in region], self.dtype)
        for worker in self.owners:
            held = self.regions[worker]
            overlap = [(max(a, b), min(c, d)) for (a, c), (b, d) in zip(region, held, strict=True)]
            if any(begin >= end for begin, end in overlap):
                continue
            part_of_shard = tuple((begin - b, end - b) for (begin, end), (b, _) in zip(overlap, held, strict=True))
            part = tuple(slice(begin - b, end - b) for (begin, end), (b, _) in zip(overlap, region, strict=True))
            elements[part] = cut(self.arrays[worker], part_of_shard).asnumpy()
        return elements

    def gather_pieces(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the whole tensor in memory order, a few megabytes at a time."""
        for region in list_pieces(self.shape, np.dtype(self.dtype).itemsize):
            yield self.gather_region(region)

    def __repr__(self) -> str:
        return f"<ShardedTensor {self.name} {self.dtype}{self.shape} over {len(self.contexts)} workers>"


def as_legacy(array: Any) -> Any:
    """Return an `mx.np` array as an NDArray in the same memory. Other arrays are returned unchanged."""
    return array.as_nd_ndarray() if isinstance(array, mx.np.ndarray) else array


def list_pieces(shape: tuple[int, ...], item_bytes: int, most_bytes: int = PIECE_BYTES) -> Iterator[Region]:
    """Yield regions of at most `most_bytes` bytes that together cover a tensor, in memory order."""
    if not shape:
        yield ()
        return
    row_bytes = [item_bytes * prod(shape[dimension + 1 :]) for dimension in range(len(shape))]
    split = next((d for d, count in enumerate(row_bytes) if count <= most_bytes), len(shape) - 1)
    rows = max(1, most_bytes // max(1, row_bytes[split]))
    inner_dimensions = tuple((0, extent) for extent in shape[split + 1 :])
    for outer_indices in np.ndindex(shape[:split]):
        for begin in range(0, shape[split], rows):
            end = min(begin + rows, shape[split])
            yield (*((index, index + 1) for index in outer_indices), (begin, end), *inner_dimensions)


def _has_whole_rows(region: Region, whole: Any) -> bool:
    return all(span == (0, extent) for span, extent in zip(region[1:], whole.shape[1:], strict=True))


def cut(whole: Any, region: Region) -> Any:
    """Return a region of an array. It is a view if only the first dimension is cut."""
    if _has_whole_rows(region, whole):
        return whole[region[0][0] : region[0][1]] if region else whole
    if whole.ndim > MOST_SLICED_DIMENSIONS:
        shape, merged = merge_dimensions(whole.shape, region)
        return cut(whole.reshape(shape), merged).reshape(tuple(end - begin for begin, end in region))
    return mx.nd.slice(whole, begin=[begin for begin, _ in region], end=[end for _, end in region])


def paste(part: Any, whole: Any, region: Region) -> None:
    """Copy the array `part` into a region of `whole`. They may be on different devices."""
    if _has_whole_rows(region, whole):
        part.copyto(cut(whole, region))
        return
    if whole.ndim > MOST_SLICED_DIMENSIONS:
        shape, merged = merge_dimensions(whole.shape, region)
        paste(part.reshape(tuple(end - begin for begin, end in merged)), whole.reshape(shape), merged)
        return
    part = part.as_in_context(whole.context)
    mx.nd._internal._slice_assign(whole, part, begin=[b for b, _ in region], end=[e for _, e in region], out=whole)


def merge_dimensions(shape: Sequence[int], region: Region) -> tuple[tuple[int, ...], Region]:
    """Merge dimensions that a region covers completely.

    Return the new shape and the new region. Both have fewer dimensions and the same elements.

    >>> merge_dimensions((4, 2, 3, 5), ((1, 3), (0, 2), (0, 1), (0, 5)))
    ((8, 15), ((2, 6), (0, 5)))
    """
    extents: list[int] = []
    spans: list[tuple[int, int]] = []
    for extent, (begin, end) in zip(shape, region, strict=True):
        if extents and (begin, end) == (0, extent):
            extents[-1] *= extent
            spans[-1] = spans[-1][0] * extent, spans[-1][1] * extent
        else:
            extents.append(extent)
            spans.append((begin, end))
    if len(extents) > MOST_SLICED_DIMENSIONS:
        raise ShapeError(
            f"MXNet slices along {MOST_SLICED_DIMENSIONS} dimensions at most, and a shard of a tensor of shape {tuple(shape)} is split "
            "along more. Use hints= that split it along fewer."
        )
    return tuple(extents), tuple(spans)


def count_writes(array: Any) -> int:
    """Wait for all writes to an NDArray, and return their number."""
    array.wait_to_read()
    return int(_mxnet.array_version(array.handle.value))


def digest(array: Any) -> int:
    """Return a number that depends on the contents of an NDArray. It is 0 for sparse arrays and on GPUs."""
    return 0 if array.stype != "default" else _mxnet.array_digest(array.handle.value)
