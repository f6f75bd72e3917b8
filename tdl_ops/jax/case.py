"""Cases for the verification of JAX primitives."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tofu.verification.kernel import Array
from tofu.verification.numbers import Given, Numbers, read_given


@dataclass(frozen=True, init=False)
class PrimitiveCase:
    """A function of arrays whose equations are verified. It includes its gradient if that is wanted.

    `inputs` are shapes, for numbers between -2 and 2, or other sources of numbers. Floating-point numbers are drawn in
    double precision; JAX converts them to single precision by default.

    >>> PrimitiveCase("product", lambda x, w: x @ w, (4, 6), (6, 8)).draw_inputs()[1].shape
    (6, 8)
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[Given, ...]

    def __init__(self, name: str, function: Callable[..., Any], *inputs: Given) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "inputs", inputs)

    def draw_inputs(self, seed: int = 0) -> list[Array]:
        """Return an array for each argument."""
        random = np.random.RandomState(seed)
        given = (Numbers(-2, 2, value) if isinstance(value, tuple) else value for value in self.inputs)
        return [read_given(value).draw(random) for value in given]
