"""Copy the arrays that a traced step closes over, so that the step keeps their values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from tofu.errors import UnsupportedError
from tofu.jax.frontend.equations import find_dtype


def copy_constants(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """Return the jaxpr with copies of its constants, including constants of inner jaxprs.

    The original arrays may change: the user may write to a NumPy array, or delete or donate a JAX array. Raise
    UnsupportedError for a constant that an outer transformation is tracing.
    """
    return _ConstantCopier().copy_closed(closed)


class _ConstantCopier:
    def __init__(self) -> None:
        self._copies: dict[int, Any] = {}
        self._copied_jaxprs: dict[int, Any] = {}

    def copy_closed(self, closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
        if id(closed) not in self._copied_jaxprs:
            jaxpr = self._copy_jaxpr(closed.jaxpr)
            is_same = jaxpr is closed.jaxpr and not closed.consts
            copied = closed if is_same else core.ClosedJaxpr(jaxpr, list(map(self._copy_once, closed.consts)))
            self._copied_jaxprs[id(closed)] = copied
        copied_jaxpr: core.ClosedJaxpr = self._copied_jaxprs[id(closed)]
        return copied_jaxpr

    def _copy_jaxpr(self, jaxpr: core.Jaxpr) -> core.Jaxpr:
        equations = [self._copy_equation(equation) for equation in jaxpr.eqns]
        is_changed = any(new is not old for new, old in zip(equations, jaxpr.eqns, strict=True))
        return jaxpr.replace(eqns=equations) if is_changed else jaxpr

    def _copy_equation(self, equation: core.JaxprEqn) -> core.JaxprEqn:
        params = {name: self._copy_parameter(value) for name, value in equation.params.items()}
        is_changed = any(params[name] is not value for name, value in equation.params.items())
        return equation.replace(params=params) if is_changed else equation

    def _copy_parameter(self, value: Any) -> Any:
        if isinstance(value, core.ClosedJaxpr):
            return self.copy_closed(value)
        if isinstance(value, core.Jaxpr):
            return self._copy_jaxpr(value)
        if type(value) is tuple and any(isinstance(element, (core.ClosedJaxpr, core.Jaxpr)) for element in value):
            elements = tuple(map(self._copy_parameter, value))
            return elements if any(new is not old for new, old in zip(elements, value, strict=True)) else value
        return value

    def _copy_once(self, value: Any) -> Any:
        if id(value) not in self._copies:
            self._copies[id(value)] = _copy_constant(value)
        return self._copies[id(value)]


def _copy_constant(value: Any) -> Any:
    if isinstance(value, jax.core.Tracer):
        raise UnsupportedError(
            f"The step closes over an array of {value.dtype}, shape {value.shape}, which a transformation of JAX around it (grad, jit, "
            "vmap) is tracing, so it has no value to keep. Make it an argument of the step."
        )
    if not isinstance(value, jax.Array):
        return np.array(value, find_dtype(value))
    if not value.is_fully_addressable:
        return jnp.copy(value)
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(np.array(jax.random.key_data(value)), impl=jax.random.key_impl(value))
    return np.array(value)
