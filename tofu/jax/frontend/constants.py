"""Copy the arrays that a step uses but does not take as arguments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from tofu.errors import UnsupportedError
from tofu.jax.frontend.control_flow import list_bodies, walk_equations
from tofu.jax.frontend.value_types import find_dtype


def copy_constants(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """Copy the constant arrays of a traced program, so that the user may change the original arrays.

    Raise UnsupportedError if a constant is not yet an array, because a surrounding `jax.grad`, `jax.jit` or `jax.vmap` is
    still tracing.
    """
    copies: dict[int, Any] = {}  # by id of the constant, or of the jaxpr

    def copy_once(value: Any) -> Any:
        if id(value) not in copies:
            copies[id(value)] = _copy_constant(value)
        return copies[id(value)]

    def copy(value: Any) -> Any:
        if type(value) is tuple:
            return tuple(map(copy, value))
        if isinstance(value, core.ClosedJaxpr) and (value.consts or _has_constants(value.jaxpr)):
            if id(value) not in copies:
                copies[id(value)] = core.ClosedJaxpr(copy(value.jaxpr), list(map(copy_once, value.consts)))
            return copies[id(value)]
        if not isinstance(value, core.Jaxpr) or not _has_constants(value):
            return value
        params = ({name: copy(x) for name, x in equation.params.items()} for equation in value.eqns)
        return value.replace(eqns=[each.replace(params=new) for each, new in zip(value.eqns, params, strict=True)])

    copied: core.ClosedJaxpr = copy(closed)
    return copied


def _has_constants(jaxpr: core.Jaxpr) -> bool:
    return any(body.consts for equation in walk_equations(jaxpr) for body in list_bodies(equation.params))


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
