"""Whole arrays of an executor. They are allocated, or shared with other executors, as in MXNet's `simple_bind`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import mxnet as mx
import numpy as np

from tofu.errors import ArgumentTypeError
from tofu.validation import show_with_type


@dataclass(frozen=True)
class BoundArrays:
    """Allocator of whole arrays, which knows shape, type and context of each argument and state.

    `buffer` is MXNet's `shared_buffer`: arrays by name that executors for different input shapes share and enlarge.
    """

    shapes: Mapping[str, tuple[int, ...]]
    types: Mapping[str, str]
    contexts: Mapping[str, Any]
    buffer: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.buffer is not None and not isinstance(self.buffer, dict):
            raise ArgumentTypeError(f"shared_buffer is a dict of names and arrays, not {show_with_type(self.buffer)}.")

    def take(self, name: str, pool: Mapping[str, Any], stype: str) -> Any:
        """Return the array of this name in `pool` if it fits, else zeros."""
        existing = pool.get(name)
        if (
            existing is None
            or tuple(existing.shape) != self.shapes[name]
            or np.dtype(existing.dtype) != self.types[name]
        ):
            return self._allocate(name, stype)
        return existing

    def share(self, name: str, key: str, stype: str) -> Any:
        """Return the beginning of the array `key` in the buffer. If it is too small, return zeros and put them into the buffer.

        Sparse arrays are not shared.
        """
        if self.buffer is None or stype != "default":
            return self._allocate(name, stype)
        existing = self.buffer.get(key)
        if existing is None or existing.size < prod(self.shapes[name]) or np.dtype(existing.dtype) != self.types[name]:
            existing = self.buffer[key] = self._allocate(name, stype)
        return view_beginning(existing, self.shapes[name])

    def _allocate(self, name: str, stype: str) -> Any:
        return mx.nd.zeros(self.shapes[name], ctx=self.contexts[name], dtype=self.types[name], stype=stype)


def view_beginning(array: Any, shape: tuple[int, ...]) -> Any:
    """Return the first elements of an array as an array of this shape, in the same memory."""
    return array if tuple(array.shape) == shape else array.reshape((-1,))[: prod(shape)].reshape(shape)
