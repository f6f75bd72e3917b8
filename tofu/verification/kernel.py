"""An engine's operator for verification: tensors, attributes, and a way to run it on other ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Shape: TypeAlias = tuple[int, ...]


class Kernel(Protocol):
    """Operator with whole inputs and outputs."""

    @property
    def op(self) -> str:
        """The name of the operator."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The attributes. Numbers, and tuples of them, may shrink to the size of a part."""

    @property
    def inputs(self) -> tuple[Array, ...]:
        """Its inputs."""

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The outputs for these inputs."""

    def infer(self, values: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...] | None:
        """Return the shapes of its outputs for other attributes and inputs; None if it refuses them."""

    def try_run(
        self, values: Mapping[str, Any], inputs: Sequence[Array], output_shapes: Sequence[Shape]
    ) -> Sequence[Array] | None:
        """Return its outputs for other attributes and inputs; None if it refuses them."""
