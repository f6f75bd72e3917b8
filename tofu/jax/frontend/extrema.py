"""Find values like `x` in `x == jnp.max(x)`, which is part of the gradient of `jnp.max`.

The compiler may compute `x` twice with different rounding errors. Then no element equals the maximum, and the gradient
is NaN. An optimization barrier after `x` prevents this.
"""

from __future__ import annotations

import jax.numpy as jnp

from tofu.jax.frontend.equations import Equation, Operand, Step

REDUCING = frozenset(("reduce_max", "reduce_min"))
RESHAPING = frozenset(("broadcast_in_dim", "expand_dims", "reshape", "squeeze"))
"""Primitives that may be between a maximum and its comparison."""


def find_compared_with_extremum(step: Step) -> frozenset[int]:
    """Return the floating-point values that are compared with their maximum or minimum, as in `x == jnp.max(x)`."""
    equation_by_result = {number: equation for equation in step.walk() for number in equation.outputs}
    compared = set()
    for equation in step.walk():
        if equation.primitive.name == "eq":
            for value, extremum in (equation.inputs, equation.inputs[::-1]):
                if isinstance(value, int) and value in _list_reduced(extremum, equation_by_result):
                    compared.add(value)
    return frozenset(value for value in compared if jnp.issubdtype(step.types[value].dtype, jnp.floating))


def _list_reduced(operand: Operand, equation_by_result: dict[int, Equation]) -> tuple[Operand, ...]:
    while isinstance(operand, int) and operand in equation_by_result:
        equation = equation_by_result[operand]
        if equation.primitive.name in REDUCING:
            return equation.inputs
        if equation.primitive.name not in RESHAPING:
            break
        operand = equation.inputs[0]
    return ()
