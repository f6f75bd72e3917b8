"""One operator at one signature, and the numbers that it is verified with.

Sizes are odd and small, so that parts are uneven. The backward operators come with the operator whose gradient they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tofu.mxnet.verify.comparison import Relation
from tofu.mxnet.verify.kernels import Array, Shape
from tofu.mxnet.verify.operators import verify_operator
from tofu.mxnet.verify.report import TOLERANCE, Report

SINGLE_PRECISION = 1e-6
"""For kernels that hold an attribute (grad_scale, eps, lr, a scalar's share) in single precision, whatever the type of the data."""


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
    """Numbers between -1 and 1 in float32, where that is the only type that MXNet's kernel has."""
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


@dataclass(frozen=True)
class Case:
    """An operator at one signature.

    `inputs` are shapes, for numbers between -1 and 1, or `Numbers`, or `Fixed` ones, states included; those at the positions `double` are
    in double precision, whatever the others. `wrt`, `relations` and `description_tolerance` are explained at `verify_operator`.
    """

    op: str
    attributes: Mapping[str, Any]
    inputs: Sequence[Shape | Numbers | Fixed]
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
        return tuple(given if isinstance(given, Numbers | Fixed) else uniform(-1, 1, *given) for given in self.inputs)

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


def verify_case(case: Case, dtype: str = "float64", seed: int = 0) -> Report:
    """Verify one case. In float64 MXNet's own kernels run, in float32 oneDNN's wherever it has one."""
    single_tolerance = max(case.description_tolerance, 1e-4)
    return verify_operator(
        case.op,
        case.attributes,
        case.draw_inputs(dtype, seed),
        wrt=case.wrt,
        relations=case.relations,
        description_tolerance=case.description_tolerance if dtype == "float64" else single_tolerance,
        seed=seed,
    )
