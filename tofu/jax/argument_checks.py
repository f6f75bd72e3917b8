"""Check the shapes and types of a step's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from tofu.errors import ShapeError, UnsupportedError
from tofu.jax.backend.uneven import UnevenArray
from tofu.jax.frontend.equations import Step
from tofu.jax.frontend.static_leaves import NUMBERS, is_array
from tofu.jax.frontend.value_types import ValueType, find_dtype
from tofu.jax.frontend.versions import Line
from tofu.validation import show_with_type

WeakTypes: TypeAlias = "tuple[bool, ...]"
"""True for each value with a weak type. JAX gives Python numbers a weak type, so that `x * 0.1` has the type of `x`."""


def check_leaves(leaves: Sequence[Any], planned_types: Sequence[ValueType], names: Sequence[str]) -> None:
    """Raise ShapeError if an array has another shape or type than planned.

    Raise UnsupportedError if an array is deleted because an earlier call has reused its memory.
    """
    for leaf, planned, name in zip(leaves, planned_types, names, strict=True):
        if not (isinstance(leaf, jax.Array) and leaf.shape == planned.shape and leaf.dtype == planned.dtype):
            _check_leaf(leaf, planned, name)
        is_on_devices = isinstance(leaf, (jax.Array, UnevenArray)) and not isinstance(leaf, jax.core.Tracer)
        if is_on_devices and leaf.is_deleted():
            raise UnsupportedError(
                f"{name} was donated to an earlier call (donate_argnums) and deleted. Continue with the results of that call, or with "
                "a checkpoint."
            )


def _check_leaf(leaf: Any, planned: ValueType, name: str) -> None:
    if not is_array(leaf):
        raise ShapeError(f"{name} is {show_with_type(leaf)}, and the step was planned for an array of {planned.dtype}.")
    if np.shape(leaf) != planned.shape:
        raise ShapeError(
            f"{name} has shape {np.shape(leaf)}, and the step was planned for {planned.shape}. Call tofu.jax.partition again for other "
            "shapes, or also() to keep the layout of the state."
        )
    dtype = find_dtype(leaf)
    if dtype != planned.dtype:
        raise ShapeError(
            f"{name} is {dtype}, and the step was planned for {planned.dtype}. Convert it, or call tofu.jax.partition again for other "
            "types."
        )


def refuse_shapes(leaves: Sequence[Any], names: Sequence[str]) -> None:
    """Raise ShapeError if an argument is a `jax.ShapeDtypeStruct` instead of an array."""
    for leaf, name in zip(leaves, names, strict=True):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise ShapeError(
                f"{name} is a shape, {leaf}, not an array. Shapes suffice for plans and lower(); pass arrays here."
            )


def list_weak(leaves: Sequence[Any]) -> WeakTypes:
    """Return a bool for each leaf: True if its type may change in arithmetic, as for Python numbers."""
    return tuple(bool(getattr(leaf, "weak_type", type(leaf) in NUMBERS and type(leaf) is not bool)) for leaf in leaves)


def describe_type_difference(planned: Step, step: Step) -> str:
    """Describe the first operation whose types differ between two steps. Return "" if all types are equal."""
    planned_equations, equations = _list_types(planned), _list_types(step)
    for (_, planned_types), (line, types) in zip(planned_equations, equations, strict=False):
        if planned_types != types:
            return f"at {line} it computes {types[-1]}, and the plan computes {planned_types[-1]}"
    result_dtypes = {tuple(type_.dtype for type_ in each.result_types) for each in (planned, step)}
    is_equal = len(planned_equations) == len(equations) and len(result_dtypes) == 1
    return "" if is_equal else "it computes results of other types than the plan"


def refuse_weak_types(names: Sequence[str], planned: Sequence[ValueType], weak_types: WeakTypes, problem: str) -> None:
    """Raise ShapeError if an array is passed where a Python number was planned, or the reverse.

    The message contains `problem`, a text about what would change.
    """
    kind_by_weakness = {True: "a Python number (or computed from such alone)", False: "an array"}
    differences = [
        f"{name} is {kind_by_weakness[is_weak]}, and the step was planned for {kind_by_weakness[type_.weak_type]} of {type_.dtype}"
        for name, type_, is_weak in zip(names, planned, weak_types, strict=True)
        if type_.weak_type != is_weak
    ]
    raise ShapeError(
        f"{'; '.join(differences[:3])}. JAX promotes their types differently: {problem}. Pass the planned kind (np.float32(0.1) is an "
        "array, 0.1 a Python number), or call tofu.jax.partition again."
    )


def _list_types(step: Step) -> list[tuple[Line, tuple[str, str, str]]]:
    equation_types = []
    for equation in step.walk():
        operands, results = (
            ", ".join(step.find_type(x).dtype_name for x in each) for each in (equation.inputs, equation.outputs)
        )
        if equation.primitive.name != "convert_element_type" or operands != results:
            equation_types.append((equation.line, (equation.primitive.name, operands, results)))
    return equation_types
