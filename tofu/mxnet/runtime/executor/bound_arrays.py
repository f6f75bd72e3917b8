"""Allocation of the whole arrays of an executor, as in MXNet's `simple_bind`."""

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
    """An allocator of whole arrays for the arguments and states of a model.

    `buffer` is MXNet's `shared_buffer`: arrays by name, which executors for different input shapes share and enlarge.
    """

    shapes: Mapping[str, tuple[int, ...]]
    types: Mapping[str, str]
    contexts: Mapping[str, Any]
    buffer: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.buffer is not None and not isinstance(self.buffer, dict):
            raise ArgumentTypeError(f"shared_buffer is a dict of names and arrays, not {show_with_type(self.buffer)}.")

    def take(self, name: str, pool: Mapping[str, Any], stype: str) -> Any:
        """Return the array called `name` in `pool` if shape and type fit, otherwise an array of zeros."""
        existing = pool.get(name)
        if (
            existing is None
            or tuple(existing.shape) != self.shapes[name]
            or np.dtype(existing.dtype) != self.types[name]
        ):
            return self._allocate(name, stype)
        return existing

    def share(self, name: str, key: str, stype: str) -> Any:
        """Return an array that uses the beginning of the memory of `buffer[key]`.

        If `buffer[key]` is too small, an array of zeros replaces it. A sparse array is never shared.
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
    """Return the first elements of an array as an array of another shape, in the same memory."""
    return array if tuple(array.shape) == shape else array.reshape((-1,))[: prod(shape)].reshape(shape)
