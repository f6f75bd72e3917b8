"""Find integer arrays with regular strides, such as `jnp.arange(n)` and the indices of `x[1::2]`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from tofu.jax.frontend.equations import Equation, Literal, Operand

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import StepBuilder

MOST_EQUATIONS = 32  # to search before each index
LOOKED_THROUGH = frozenset(("convert_element_type", "copy"))


@dataclass(frozen=True)
class Progression:
    """An integer array whose element at position i is `first + sum(strides[d] * i[d])`.

    Dimensions of extent 1 have stride 0.
    """

    shape: tuple[int, ...]
    first: int
    strides: tuple[int, ...]

    def __post_init__(self) -> None:
        strides = (stride if extent > 1 else 0 for stride, extent in zip(self.strides, self.shape, strict=True))
        object.__setattr__(self, "strides", tuple(strides))

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest number."""
        spans = [stride * (extent - 1) for stride, extent in zip(self.strides, self.shape, strict=True)]
        return self.first + sum(min(span, 0) for span in spans), self.first + sum(max(span, 0) for span in spans)

    def add(self, other: Progression, factor: int = 1) -> Progression:
        """Return `self + factor * other`, broadcast as in NumPy."""
        strides = tuple(a + factor * b for a, b in zip(self.strides, other.strides, strict=True))
        return Progression(np.broadcast_shapes(self.shape, other.shape), self.first + factor * other.first, strides)


def find_progression(builder: StepBuilder, operand: Operand) -> Progression | None:
    """Return an operand as a `Progression`, or None if its elements are unknown or not evenly spaced."""
    return _Finder(builder).find(operand)


class _Finder:
    def __init__(self, builder: StepBuilder) -> None:
        self.builder = builder
        self.left = MOST_EQUATIONS

    def find(self, operand: Operand, shape: tuple[int, ...] | None = None) -> Progression | None:
        type_ = self.builder.find_type(operand)
        if type_.is_key or not jnp.issubdtype(type_.dtype, jnp.integer):
            return None
        if isinstance(operand, Literal):
            return _fill(shape or (), int(operand.value))
        maker = self.builder.find_producer(operand)
        if maker is None or self.left == 0:
            return None
        self.left -= 1
        found = self._read(maker, type_.shape)
        limits = jnp.iinfo(type_.dtype)
        if found is None or not limits.min <= found.limits[0] <= found.limits[1] <= limits.max:
            return None
        return found if found.shape else _fill(shape or (), found.first)

    def _read(self, maker: Equation, shape: tuple[int, ...]) -> Progression | None:
        name, inputs, params = maker.primitive.name, maker.inputs, maker.params
        if name == "iota":
            return Progression(shape, 0, tuple(int(d == params["dimension"]) for d in range(len(shape))))
        if name in ("add", "sub", "mul"):
            return self._combine(name, [self.find(x, shape) for x in inputs])
        if name == "select_n":
            return self._choose(inputs, shape)
        if name == "clamp":
            return self._clamp([self.find(x, shape) for x in inputs])
        found = self.find(inputs[0]) if len(inputs) == 1 else None
        if found is None:
            return None
        if name in LOOKED_THROUGH:
            return found
        if name == "broadcast_in_dim":
            strides = [0] * len(shape)
            for d, stride in zip(params["broadcast_dimensions"], found.strides, strict=True):
                strides[d] = stride
            return Progression(shape, found.first, tuple(strides))
        if name == "rev":
            ends = {d: found.strides[d] * (shape[d] - 1) for d in params["dimensions"]}
            strides = [-stride if d in ends else stride for d, stride in enumerate(found.strides)]
            return Progression(shape, found.first + sum(ends.values()), tuple(strides))
        if name in ("reshape", "squeeze", "expand_dims"):
            return _reshape(found, shape)
        return None

    def _combine(self, name: str, found: list[Progression | None]) -> Progression | None:
        one, other = found
        if one is None or other is None:
            return None
        if name != "mul":
            return one.add(other, 1 if name == "add" else -1)
        if any(one.strides):
            one, other = other, one
        return None if any(one.strides) else replace(one, first=0).add(other, one.first)

    def _clamp(self, found: list[Progression | None]) -> Progression | None:
        least, clamped, most = found
        if least is None or clamped is None or most is None:
            return None
        (low, high), (first, last) = clamped.limits, (least.limits[1], most.limits[0])
        return clamped if first <= low and high <= last else None

    def _choose(self, inputs: tuple[Operand, ...], shape: tuple[int, ...]) -> Progression | None:
        which, *cases = inputs
        maker = self.builder.find_producer(which)
        if maker is None or maker.primitive.name not in ("lt", "ge") or len(cases) != 2:
            return None
        compared, bound = (self.find(x, shape) for x in maker.inputs)
        if compared is None or bound is None:
            return None
        is_less = compared.limits[1] < bound.limits[0]
        if not is_less and compared.limits[0] < bound.limits[1]:
            return None
        return self.find(cases[is_less == (maker.primitive.name == "lt")], shape)


def _fill(shape: tuple[int, ...], number: int) -> Progression:
    return Progression(shape, number, (0,) * len(shape))


def _reshape(found: Progression, shape: tuple[int, ...]) -> Progression | None:
    strides = [stride for stride, extent in zip(found.strides, found.shape, strict=True) if extent > 1]
    if [extent for extent in found.shape if extent > 1] != [extent for extent in shape if extent > 1]:
        return None
    rest = iter(strides)
    return Progression(shape, found.first, tuple(next(rest) if extent > 1 else 0 for extent in shape))
