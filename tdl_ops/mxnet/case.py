"""One operator at one signature, and the numbers that it is verified with.

Sizes are odd and small, so that parts are uneven. The backward operators come with the operator whose gradient they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tofu.verification.comparison import Relation
from tofu.verification.kernel import Array
from tofu.verification.numbers import Fixed, Given, Numbers, read_given
from tofu.verification.report import TOLERANCE

SINGLE_PRECISION = 1e-6
"""For kernels that hold an attribute (grad_scale, eps, lr, a scalar's share) in single precision, whatever the type of the data."""


@dataclass(frozen=True)
class Case:
    """An operator at one signature.

    `inputs` are shapes, for numbers between -1 and 1, or `Numbers`, or `Fixed` ones, states included; those at the positions `double` are
    in double precision, whatever the others. `wrt`, `relations` and `description_tolerance` are explained at `verify_operator`.
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
        """What each input is drawn from."""
        return tuple(map(read_given, self.inputs))

    @property
    def indexed(self) -> frozenset[int]:
        """Extents that inputs index into."""
        return frozenset(int(given.high) for given in self.numbers if isinstance(given, Numbers) and given.is_index)

    def draw_inputs(self, dtype: str = "float64", seed: int = 0) -> list[Array]:
        """An array for each input, in `dtype` where the case does not say otherwise."""
        random = np.random.RandomState(seed)
        arrays = [numbers.draw(random) for numbers in self.numbers]
        free = [array.dtype == np.float64 and n not in self.double for n, array in enumerate(arrays)]
        return [array.astype(dtype) if is_free else array for array, is_free in zip(arrays, free, strict=True)]
