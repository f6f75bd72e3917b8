"""Define cases, the functions with which descriptions of JAX primitives are verified."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tofu.verification.kernel import Array
from tofu.verification.numbers import Given, Numbers, read_given


class PrimitiveCase:
    """A function of arrays. The JAX operations in it are verified.

    `inputs` has a shape or another source of numbers for each argument. A shape stands for numbers between -2 and 2.

    >>> PrimitiveCase("product", lambda x, w: x @ w, (4, 6), (6, 8)).draw_inputs()[1].shape
    (6, 8)
    """

    def __init__(self, name: str, function: Callable[..., Any], *inputs: Given) -> None:
        self.name, self.function, self.inputs = name, function, inputs

    def draw_inputs(self, seed: int = 0) -> list[Array]:
        """Return an array for each argument of the function."""
        random = np.random.RandomState(seed)
        given = (Numbers(-2, 2, value) if isinstance(value, tuple) else value for value in self.inputs)
        return [read_given(value).draw(random) for value in given]
