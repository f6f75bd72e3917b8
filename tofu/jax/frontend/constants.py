"""Copy the arrays that a step uses but does not take as arguments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from tofu.errors import UnsupportedError
from tofu.jax.frontend.control_flow import list_bodies
from tofu.jax.frontend.value_types import find_dtype


def copy_constants(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """Copy the constant arrays of a traced program, so that the user may change the original arrays.

    Raise UnsupportedError if a constant is not yet an array, because a surrounding `jax.grad`, `jax.jit` or `jax.vmap` is
    still tracing.
    """
    copied: core.ClosedJaxpr = _ConstantCopier().copy(closed)
    return copied


class _ConstantCopier:
    def __init__(self) -> None:
        self._copies: dict[int, Any] = {}  # by id of the constant, or of the jaxpr

    def copy(self, value: Any) -> Any:
        if type(value) is tuple:
            return tuple(map(self.copy, value))
        if isinstance(value, core.ClosedJaxpr) and (value.consts or _has_constants(value.jaxpr)):
            if id(value) not in self._copies:
                constants = list(map(self._copy_once, value.consts))
                self._copies[id(value)] = core.ClosedJaxpr(self._copy_equations(value.jaxpr), constants)
            return self._copies[id(value)]
        return self._copy_equations(value) if isinstance(value, core.Jaxpr) else value

    def _copy_equations(self, jaxpr: core.Jaxpr) -> core.Jaxpr:
        if not _has_constants(jaxpr):
            return jaxpr
        params = ({name: self.copy(x) for name, x in equation.params.items()} for equation in jaxpr.eqns)
        return jaxpr.replace(
            eqns=[equation.replace(params=new) for equation, new in zip(jaxpr.eqns, params, strict=True)]
        )

    def _copy_once(self, value: Any) -> Any:
        if id(value) not in self._copies:
            self._copies[id(value)] = _copy_constant(value)
        return self._copies[id(value)]


def _has_constants(jaxpr: core.Jaxpr) -> bool:
    bodies = (body for equation in jaxpr.eqns for body in list_bodies(equation.params))
    return any(body.consts or _has_constants(body.jaxpr) for body in bodies)


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
