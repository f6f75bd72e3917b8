"""The whole arrays of an executor that `simple_bind` makes, or takes from another executor or from a buffer, as MXNet does."""

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
    """What arrays are made with: the shape, the type and the context of each argument and state. `buffer` is MXNet's `shared_buffer`, the
    arrays that executors of different input shapes share, by name, and grows.
    """

    shapes: Mapping[str, tuple[int, ...]]
    types: Mapping[str, str]
    places: Mapping[str, Any]
    buffer: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.buffer is not None and not isinstance(self.buffer, dict):
            raise ArgumentTypeError(f"shared_buffer is a dict of names and arrays, not {show_with_type(self.buffer)}.")

    def take(self, name: str, pool: Mapping[str, Any], stype: str) -> Any:
        """That of another executor where it fits, else zeros."""
        existing = pool.get(name)
        if (
            existing is None
            or tuple(existing.shape) != self.shapes[name]
            or np.dtype(existing.dtype) != self.types[name]
        ):
            return self._make(name, stype)
        return existing

    def share(self, name: str, key: str, stype: str) -> Any:
        """The beginning of that of the buffer under `key` where it is large enough, else zeros, which the buffer has from now on. Sparse
        ones are not shared.
        """
        if self.buffer is None or stype != "default":
            return self._make(name, stype)
        existing = self.buffer.get(key)
        if existing is None or existing.size < prod(self.shapes[name]) or np.dtype(existing.dtype) != self.types[name]:
            existing = self.buffer[key] = self._make(name, stype)
        return begin(existing, self.shapes[name])

    def _make(self, name: str, stype: str) -> Any:
        return mx.nd.zeros(self.shapes[name], ctx=self.places[name], dtype=self.types[name], stype=stype)


def begin(array: Any, shape: tuple[int, ...]) -> Any:
    """The first cells of an array that is large enough, in its memory."""
    return array if tuple(array.shape) == shape else array.reshape((-1,))[: prod(shape)].reshape(shape)
