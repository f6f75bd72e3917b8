"""Give split rules to equations that call Pallas kernels or cuDNN's attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import jax.numpy as jnp

from tofu.errors import UnsupportedError
from tofu.jax.frontend.equations import Equation
from tofu.jax.frontend.value_types import ValueType
from tofu.jax.kernels.call import KernelCall, merge
from tofu.jax.kernels.cudnn import BACKWARD, FORWARD, read_attention
from tofu.jax.kernels.pallas import read_pallas_call
from tofu.jax.kernels.rule import Shape, SplitRule
from tofu.jax.kernels.versions import find_kernel_name

READERS: Mapping[str, Callable[[Equation, Sequence[Shape]], KernelCall]] = {
    "pallas_call": read_pallas_call,
    FORWARD: read_attention,
    BACKWARD: read_attention,
}


def describe_kernel(equation: Equation, types: Sequence[ValueType]) -> Equation:
    """Give a split rule to an equation that calls a Pallas kernel or cuDNN's attention.

    Other equations are returned unchanged.
    """
    if equation.primitive.name == "custom_lin":
        raise UnsupportedError(
            f"The step at {equation.line} differentiates a function in forward mode (jax.jvp, jax.jacfwd), and its gradient is known in "
            "reverse mode only (jax.custom_vjp or tofu.jax.describe). Use jax.grad or jax.jacrev."
        )
    reader = READERS.get(equation.primitive.name)
    if reader is None or "call" in equation.params:
        return equation
    call = reader(equation, [type_.shape for type_ in types])
    scope = equation.scope
    if equation.primitive.name == "pallas_call":
        scope = "/".join(filter(None, (scope, find_kernel_name(equation.params))))
    inputs = tuple(x for x, type_ in zip(equation.inputs, types, strict=True) if 0 not in type_.shape)
    if len(inputs) < len(types):
        call = _restore_empty(call, types)
    return replace(equation, primitive=call.primitive, params=call.parameters, inputs=inputs, scope=scope)


def _restore_empty(call: KernelCall, types: Sequence[ValueType]) -> KernelCall:
    is_present = [0 not in type_.shape for type_ in types]

    def run(*operands: Any) -> Sequence[Any]:
        empty = (jnp.zeros(type_.shape, type_.dtype) if 0 in type_.shape else None for type_ in types)
        return call.run(*merge(is_present, operands, empty))

    assert call.rule is not None
    return replace(call, run=run, rule=SplitRule(tuple(compress(call.rule.inputs, is_present)), call.rule.outputs))
