"""Allocate the whole arrays of an executor, as MXNet's `simple_bind` does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import mxnet as mx
import numpy as np

from tofu.errors import ArgumentTypeError
from tofu.validation import show_with_type


@dataclass(frozen=True)
class ArrayAllocator:
    """Allocate whole arrays for arguments, gradients and auxiliary states (such as moving means).

    Attributes
    ----------
    shapes, types, contexts
        Shape, type and device of each array, by name.
    sharded
        Names of arguments and states that need only shards.
    shared
        Names of arguments and states that use another executor's arrays if possible.
    buffer
        MXNet's `shared_buffer`: arrays by name that several executors share.
    """

    shapes: Mapping[str, tuple[int, ...]]
    types: Mapping[str, str]
    contexts: Mapping[str, Any]
    sharded: Collection[str]
    shared: Collection[str]
    buffer: dict[str, Any] | None

    def __post_init__(self) -> None:
        if self.buffer is not None and not isinstance(self.buffer, dict):
            raise ArgumentTypeError(f"shared_buffer is a dict of names and arrays, not {show_with_type(self.buffer)}.")

    def allocate(self, name: str, old_arrays: Mapping[str, Any], key: str, stype: str = "default") -> Any:
        """Return an array for an argument, gradient or state. Return None if it needs only shards.

        `old_arrays` has another executor's arrays by name. `key` is the array's name in `buffer`.
        """
        if name in self.shared or self.buffer is None:
            existing = old_arrays.get(name) if name in self.shared else None
            if existing is None and name in self.sharded:
                return None
            fits = (
                existing is not None and tuple(existing.shape) == self.shapes[name] and self._has_type(name, existing)
            )
            return existing if fits else self._make_zeros(name, stype)
        if stype != "default":  # sparse arrays cannot be cut
            return self._make_zeros(name, stype)
        existing = self.buffer.get(key)
        if existing is None or existing.size < prod(self.shapes[name]) or not self._has_type(name, existing):
            existing = self.buffer[key] = self._make_zeros(name, stype)
        return view_beginning(existing, self.shapes[name])

    def _has_type(self, name: str, array: Any) -> bool:
        return np.dtype(array.dtype) == self.types[name]

    def _make_zeros(self, name: str, stype: str) -> Any:
        return mx.nd.zeros(self.shapes[name], ctx=self.contexts[name], dtype=self.types[name], stype=stype)


def view_beginning(array: Any, shape: tuple[int, ...]) -> Any:
    """Return an array of this shape that shares the first elements of `array`."""
    return array if tuple(array.shape) == shape else array.reshape((-1,))[: prod(shape)].reshape(shape)
