"""The interface by which an engine passes one operator to verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Shape: TypeAlias = tuple[int, ...]


class Kernel(Protocol):
    """Operator with its inputs and outputs, which can also run with other inputs and attributes."""

    @property
    def op(self) -> str:
        """The name of the operator."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The attributes. Numbers and tuples of numbers may be shrunk to the size of a part."""

    @property
    def inputs(self) -> tuple[Array, ...]:
        """The inputs."""

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The outputs for these inputs."""

    def infer(self, values: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...] | None:
        """Return the shapes of the outputs for other attributes and inputs, or None if the framework refuses them."""

    def try_run(
        self, values: Mapping[str, Any], inputs: Sequence[Array], output_shapes: Sequence[Shape]
    ) -> Sequence[Array] | None:
        """Return the outputs for other attributes and inputs, or None if the kernel refuses them."""
