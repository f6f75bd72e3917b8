"""Remove arrays without elements, such as `x[:0]`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.extend import core

from tofu.jax.frontend.equations import Equation, Literal, Operand
from tofu.jax.frontend.value_types import ValueType

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import StepBuilder

WRITTEN = {"dynamic_update_slice": 1}
"""Position of the operand that is written into operand 0. Scatters write operand 2."""


def drop_empty(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Remove empty arrays from an equation (JAX operation): `concatenate([x, x[:0]])` becomes x.

    Return None to keep the equation.
    """
    if types and all(map(is_empty, types)):
        return list(map(builder.add_empty, types))
    if equation.primitive.name == "split" and any(map(is_empty, types)):
        return _split(builder, equation, types)
    operand_types = list(map(builder.find_type, equation.inputs))
    nonempty = [x for x, type_ in zip(equation.inputs, operand_types, strict=True) if not is_empty(type_)]
    if len(nonempty) == len(operand_types):
        return None
    name = equation.primitive.name
    if name == "concatenate" and len(nonempty) == 1:
        return nonempty
    if name == "concatenate":
        return [builder.add(equation.primitive, types[0], nonempty, equation, **equation.params)]
    if name in WRITTEN or name.startswith("scatter"):
        return equation.inputs[:1] if is_empty(operand_types[WRITTEN.get(name, 2)]) else None
    if name == "pad":
        params: dict[str, Any] = {"shape": types[0].shape, "broadcast_dimensions": (), "sharding": None}
        return [builder.add(core.primitives.broadcast_in_dim_p, types[0], nonempty, equation, **params)]
    if all(isinstance(x, Literal) for x in nonempty):
        operands = [x.value if isinstance(x, Literal) else make_empty(builder.types[x]) for x in equation.inputs]
        return list(map(builder.add_constant, equation.evaluate_now(operands)))
    return None


def _split(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> list[Operand]:
    nonempty_types = [type_ for type_ in types if not is_empty(type_)]
    if len(nonempty_types) == 1:
        parts: Iterator[Operand] = iter(equation.inputs)
    else:
        sizes = tuple(size for size in equation.params["sizes"] if size)
        outputs = tuple(map(builder.add_value, nonempty_types))
        builder.equations.append(replace(equation, params={**equation.params, "sizes": sizes}, outputs=outputs))
        parts = iter(outputs)
    return [builder.add_empty(type_) if is_empty(type_) else next(parts) for type_ in types]


def is_empty(type_: ValueType) -> bool:
    """Return True if a type has no elements. Random keys never count as empty."""
    return 0 in type_.shape and not type_.is_key


def make_empty(type_: ValueType) -> jnp.ndarray:
    """Return an empty array, also while JAX traces a function."""
    with jax.ensure_compile_time_eval():
        return jnp.zeros(type_.shape, type_.dtype)
