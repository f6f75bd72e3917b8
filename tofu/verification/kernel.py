"""What an engine's operator is to verification: tensors, attributes, and a way to run it on other ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Shape: TypeAlias = tuple[int, ...]


class Kernel(Protocol):
    """An operator with whole inputs and outputs."""

    @property
    def op(self) -> str:
        """Its name."""

    @property
    def values(self) -> Mapping[str, Any]:
        """Its attributes; those that are numbers or tuples of them may be as large as a part."""

    @property
    def inputs(self) -> tuple[Array, ...]:
        """Its inputs."""

    @property
    def outputs(self) -> tuple[Array, ...]:
        """What it makes of them."""

    def infer(self, values: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...] | None:
        """The shapes of its outputs for other attributes and inputs; None where it refuses them."""

    def try_run(
        self, values: Mapping[str, Any], inputs: Sequence[Array], output_shapes: Sequence[Shape]
    ) -> Sequence[Array] | None:
        """Its outputs for other attributes and inputs; None where it refuses them."""
