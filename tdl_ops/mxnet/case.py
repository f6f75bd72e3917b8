"""Cases for the verification of MXNet operators.

Sizes are odd and small, so that shards are uneven. A backward operator is verified with its forward operator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tofu.verification.comparison import Relation
from tofu.verification.kernel import Array
from tofu.verification.numbers import Fixed, Given, Numbers, read_given
from tofu.verification.report import TOLERANCE

SINGLE_PRECISION = 1e-6
"""Tolerance for kernels that store an attribute (grad_scale, eps, lr, scalar) in single precision."""


@dataclass(frozen=True)
class Case:
    """An operator with attributes and inputs to verify it with.

    An input or auxiliary state is `Numbers`, `Fixed`, or a shape for random numbers between -1 and 1. Inputs at the
    positions `double` stay in double precision. For other attributes, see `verify_operator`.
    """

    op: str
    attributes: Mapping[str, Any]
    inputs: Sequence[Given]
    wrt: tuple[int, ...] | None = None
    description_tolerance: float = TOLERANCE
    relations: Mapping[str, Relation] = field(default_factory=dict)
    double: tuple[int, ...] = ()

    def __str__(self) -> str:
        attributes = "-".join(f"{name}={value}" for name, value in self.attributes.items())
        shapes = "x".join(",".join(map(str, numbers.shape)) for numbers in self.numbers)
        return f"{self.op}-{attributes}-{shapes}".replace(" ", "")

    @property
    def numbers(self) -> tuple[Numbers | Fixed, ...]:
        return tuple(map(read_given, self.inputs))

    @property
    def indexed(self) -> frozenset[int]:
        """Sizes of the tables that inputs index."""
        return frozenset(int(given.high) for given in self.numbers if isinstance(given, Numbers) and given.is_index)

    def draw_inputs(self, dtype: str = "float64", seed: int = 0) -> list[Array]:
        """Return an array for each input. Its type is `dtype` unless the case defines another."""
        random = np.random.RandomState(seed)
        arrays = [numbers.draw(random) for numbers in self.numbers]
        free = [array.dtype == np.float64 and n not in self.double for n, array in enumerate(arrays)]
        return [array.astype(dtype) if is_free else array for array, is_free in zip(arrays, free, strict=True)]
