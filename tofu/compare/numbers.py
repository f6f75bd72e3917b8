"""Compute the differences between the results of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, log10

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Arrays = Mapping[str, Array]
TINIEST = 1e-300
CANCELLED = 1e-12
"""A float64 gradient below this share of the model's largest gradient counts as a rounding error."""
CANCELLED_IN_FLOAT32 = 1e-5


@dataclass(frozen=True)
class RunNumbers:
    """Outputs, gradients and states (such as moving means) of a model after one run, by name."""

    outputs: Arrays
    gradients: Arrays = field(default_factory=dict)
    states: Arrays = field(default_factory=dict)

    @property
    def by_kind(self) -> dict[str, Arrays]:
        """The tensors by kind: "output", "gradient" and "state"."""
        return {"output": self.outputs, "gradient": self.gradients, "state": self.states}


@dataclass(frozen=True)
class Difference:
    """The relative error of one tensor: its largest difference between two runs, divided by its largest magnitude."""

    kind: str
    name: str
    error: float

    @property
    def digits(self) -> float:
        """The number of equal decimal digits, from 0 to 16: `-log10(error)`."""
        if self.error == 0:
            return 16.0
        return 0.0 if self.error == inf else min(max(-log10(self.error), 0.0), 16.0)


def relative_error(found: Array, expected: Array, least: float = TINIEST) -> float:
    """Return `max(abs(found - expected)) / max(abs(expected))`.

    The denominator is at least `least`. Return infinity if the shapes differ or `found` is not finite.
    """
    if found.shape != expected.shape:
        return inf
    found_numbers, expected_numbers = found.astype(np.float64), expected.astype(np.float64)
    if not np.isfinite(found_numbers).all():
        return inf
    return float(np.abs(found_numbers - expected_numbers).max() / max(np.abs(expected_numbers).max(), least))


def compare_numbers(found: RunNumbers, expected: RunNumbers, cancelled: float = CANCELLED) -> tuple[Difference, ...]:
    """Return the relative error of every tensor in `expected`.

    Let g be the largest magnitude in all gradients. A gradient below `cancelled * g` may be rounding noise. Its error
    is relative to g.
    """
    magnitudes = {name: float(np.abs(gradient).max()) for name, gradient in expected.gradients.items()}
    largest = max(magnitudes.values(), default=0.0)
    differences = []
    for kind, tensors in expected.by_kind.items():
        for name, tensor in tensors.items():
            is_cancelled = kind == "gradient" and magnitudes[name] < cancelled * largest
            error = relative_error(found.by_kind[kind][name], tensor, largest if is_cancelled else TINIEST)
            differences.append(Difference(kind, name, error))
    return tuple(differences)
