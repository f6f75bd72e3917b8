"""Build cases from sources of random numbers and from functions with gradients."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.lacking import list_lacking
from tofu.verification.numbers import Numbers


def integers(low: int, high: int, *shape: int, dtype: str = "int32") -> Numbers:
    """Return an input of random integers from `low` to `high - 1`."""
    return Numbers(low, high, shape, dtype, is_whole=True)


def booleans(*shape: int) -> Numbers:
    return integers(0, 2, *shape, dtype="bool")


def complexes(*shape: int) -> Numbers:
    """Return an input from which `pair` makes complex numbers of this shape."""
    return Numbers(-2, 2, (*shape, 2))


def pair(x: Any) -> Any:
    """Return x[..., 0] + 1j * x[..., 1]."""
    return jax.lax.complex(x[..., 0], x[..., 1])


def both(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes `function` and its gradient.

    The gradient is with respect to all floating-point arguments.
    """

    def run(*arguments: Any) -> Any:
        which = [n for n, x in enumerate(arguments) if jnp.issubdtype(x.dtype, jnp.floating)]

        def whole(*x: Any) -> Any:
            return function(*(x[which.index(n)] if n in which else given for n, given in enumerate(arguments)))

        out, pull = jax.vjp(whole, *(arguments[n] for n in which))
        return out, pull(jax.tree.map(jnp.cos, out))

    return run


def each(*functions: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *x: tuple(function(*x) for function in functions)


def unless_lacking(primitive: str, *cases: PrimitiveCase) -> tuple[PrimitiveCase, ...]:
    """Return the cases, or () if the installed JAX lacks the primitive."""
    return () if primitive in list_lacking() else cases
