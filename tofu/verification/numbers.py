"""What the inputs of a case are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tofu.verification.kernel import Array, Shape


@dataclass(frozen=True)
class Numbers:
    """Random numbers from `low` to below `high`, whole ones where asked.

    `is_index` says that `high` is an extent that they index, and `is_length` that it is one that they may reach.
    """

    low: float
    high: float
    shape: Shape
    dtype: str = "float64"
    is_whole: bool = False
    is_index: bool = False
    is_length: bool = False

    def draw(self, random: np.random.RandomState) -> Array:
        """An array of them."""
        if self.is_whole:
            return random.randint(int(self.low), int(self.high) + self.is_length, self.shape).astype(self.dtype)
        return np.asarray(random.uniform(self.low, self.high, self.shape)).astype(self.dtype)


@dataclass(frozen=True)
class Fixed:
    """The same numbers always, for operators that take few: coordinates without repetition, boxes."""

    values: tuple[Any, ...]
    dtype: str = "float64"

    @property
    def shape(self) -> Shape:
        """The shape of the array."""
        return np.shape(self.values)

    def draw(self, random: np.random.RandomState) -> Array:
        """The array, whatever `random`."""
        return np.array(self.values, self.dtype)


def uniform(low: float, high: float, *shape: int) -> Numbers:
    """Numbers between low and high."""
    return Numbers(low, high, shape)


def single(*shape: int) -> Numbers:
    """Numbers between -1 and 1 in float32, where kernels have no other type."""
    return Numbers(-1, 1, shape, "float32")


def half(*shape: int) -> Numbers:
    """Numbers between -1 and 1 in float16."""
    return Numbers(-1, 1, shape, "float16")


def labels(classes: int, *shape: int) -> Numbers:
    """Whole numbers from 0 to classes - 1."""
    return Numbers(0, classes, shape, is_whole=True, is_index=True)


def lengths(longest: int, *shape: int) -> Numbers:
    """Whole numbers from 1 to longest, an extent."""
    return Numbers(1, longest, shape, is_whole=True, is_index=True, is_length=True)


def whole(low: int, high: int, *shape: int) -> Numbers:
    """Whole numbers from low to high - 1."""
    return Numbers(low, high, shape, is_whole=True)


def rounded(*shape: int) -> Numbers:
    """Numbers of which many are equal."""
    return whole(-2, 3, *shape)


def ones(*shape: int) -> Numbers:
    """Only ones."""
    return whole(1, 2, *shape)


Given: TypeAlias = "Shape | Numbers | Fixed"
"""An input of a case: a shape is one of numbers between -1 and 1."""


def read_given(given: Given) -> Numbers | Fixed:
    """What an input is drawn from."""
    return given if isinstance(given, Numbers | Fixed) else uniform(-1, 1, *given)
