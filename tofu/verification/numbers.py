"""Define which random numbers an operator's inputs have in a verification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tofu.verification.kernel import Array, Shape


@dataclass(frozen=True)
class Numbers:
    """A description of random numbers x with `low <= x < high`. They are integers if `is_whole` is True.

    If `is_index` is True, x is a position in a dimension of length `high`. If `is_length` is True, x is a length, and
    `x <= high`.
    """

    low: float
    high: float
    shape: Shape
    dtype: str = "float64"
    is_whole: bool = False
    is_index: bool = False
    is_length: bool = False

    def draw(self, random: np.random.RandomState) -> Array:
        """Draw an array of these numbers."""
        if self.is_whole:
            return random.randint(int(self.low), int(self.high) + self.is_length, self.shape).astype(self.dtype)
        return np.asarray(random.uniform(self.low, self.high, self.shape)).astype(self.dtype)


@dataclass(frozen=True)
class Fixed:
    """An input with the numbers `values`."""

    values: tuple[Any, ...]
    dtype: str = "float64"

    @property
    def shape(self) -> Shape:
        """The shape of the array."""
        return np.shape(self.values)

    def draw(self, random: np.random.RandomState) -> Array:
        """Return the array. `random` is not used."""
        return np.array(self.values, self.dtype)


def uniform(low: float, high: float, *shape: int) -> Numbers:
    """Describe numbers between `low` and `high`."""
    return Numbers(low, high, shape)


def single(*shape: int) -> Numbers:
    """Describe numbers between -1 and 1 in float32, for kernels that support no other type."""
    return Numbers(-1, 1, shape, "float32")


def half(*shape: int) -> Numbers:
    """Describe numbers between -1 and 1 in float16."""
    return Numbers(-1, 1, shape, "float16")


def labels(classes: int, *shape: int) -> Numbers:
    """Describe integers from 0 to `classes - 1`."""
    return Numbers(0, classes, shape, is_whole=True, is_index=True)


def lengths(longest: int, *shape: int) -> Numbers:
    """Describe integers from 1 to `longest`."""
    return Numbers(1, longest, shape, is_whole=True, is_index=True, is_length=True)


def whole(low: int, high: int, *shape: int) -> Numbers:
    """Describe integers from `low` to `high - 1`."""
    return Numbers(low, high, shape, is_whole=True)


def rounded(*shape: int) -> Numbers:
    """Describe integers from -2 to 2. With so few values, many elements are equal."""
    return whole(-2, 3, *shape)


def ones(*shape: int) -> Numbers:
    """Describe an array of ones."""
    return whole(1, 2, *shape)


Given: TypeAlias = "Shape | Numbers | Fixed"
"""Input of a case. A shape stands for numbers between -1 and 1."""


def read_given(given: Given) -> Numbers | Fixed:
    """Convert a shape to `Numbers` between -1 and 1. Return other values unchanged."""
    return given if isinstance(given, Numbers | Fixed) else uniform(-1, 1, *given)
