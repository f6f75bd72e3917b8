"""Define the interface by which an engine passes an operator to the verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Shape: TypeAlias = tuple[int, ...]


class Kernel(Protocol):
    """An operator with its inputs and outputs. It can run again with other inputs and attributes."""

    @property
    def op(self) -> str:
        """The name of the operator."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The operator's attributes."""

    @property
    def inputs(self) -> tuple[Array, ...]:
        """The inputs."""

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The outputs for `inputs`."""

    def infer(self, values: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...] | None:
        """Return the output shapes for the attributes `values` and the input shapes `shapes`.

        Return None if the framework refuses them.
        """

    def try_run(
        self, values: Mapping[str, Any], inputs: Sequence[Array], output_shapes: Sequence[Shape]
    ) -> Sequence[Array] | None:
        """Run the kernel with the attributes `values` on `inputs`. Return None if the kernel refuses them."""
