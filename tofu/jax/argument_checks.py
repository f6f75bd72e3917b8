"""Check that a step is called with arguments of the planned shapes and types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from tofu.errors import ShapeError, UnsupportedError
from tofu.jax.backend.uneven import UnevenArray
from tofu.jax.frontend.equations import Step, ValueType, find_dtype
from tofu.jax.frontend.read_step import Native
from tofu.jax.frontend.static_leaves import NUMBERS, is_array
from tofu.jax.frontend.trace import trace_step
from tofu.jax.frontend.versions import Line
from tofu.validation import show_with_type

WeakTypes: TypeAlias = "tuple[bool, ...]"
"""For each array or number, True if its type is weak. In JAX, `x * 0.1` has the type of `x`: the type of `0.1` is weak."""


def check_leaves(leaves: Sequence[Any], planned_structs: Sequence[jax.ShapeDtypeStruct], names: Sequence[str]) -> None:
    """Raise ShapeError if an array does not have the planned shape and type.

    Raise UnsupportedError if JAX deleted an array because it was donated to an earlier call. This function runs in
    every step, so it must be fast.
    """
    for leaf, planned, name in zip(leaves, planned_structs, names, strict=True):
        if not (isinstance(leaf, jax.Array) and leaf.shape == planned.shape and leaf.dtype == planned.dtype):
            _check_leaf(leaf, planned, name)
        is_on_devices = isinstance(leaf, (jax.Array, UnevenArray)) and not isinstance(leaf, jax.core.Tracer)
        if is_on_devices and leaf.is_deleted():
            raise UnsupportedError(
                f"{name} was donated to an earlier call (donate_argnums) and deleted. Continue with the results of that call, or with "
                "a checkpoint."
            )


def _check_leaf(leaf: Any, planned: jax.ShapeDtypeStruct, name: str) -> None:
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
    """Raise ShapeError if an argument is only a shape, which suffices to plan a step but not to run it."""
    for leaf, name in zip(leaves, names, strict=True):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise ShapeError(
                f"{name} is a shape, {leaf}, not an array. Shapes suffice for plans and lower(); pass arrays here."
            )


def list_weak(leaves: Sequence[Any]) -> WeakTypes:
    """Return True for each leaf with a weak type: a Python number, or an array computed only from Python numbers."""
    return tuple(bool(getattr(leaf, "weak_type", type(leaf) in NUMBERS and type(leaf) is not bool)) for leaf in leaves)


class WeakTypeCheck:
    """A check that a step which was planned for a Python number may be called with an array instead, or vice versa.

    A Python number has a *weak type*: `x * 0.1` has the type of `x`, but `x * np.float32(0.1)` has the wider of the two
    types. If a call has other weak types than planned, the step is traced again, as `jax.jit` does. If the equations
    then compute in the planned types, the planned program is still correct.
    """

    def __init__(self, function: Callable[..., Any], native: Native, names: Sequence[str]) -> None:
        self._function, self._native, self._names = function, native, names
        self._types = [native.step.types[number] for number in native.step.inputs]
        self.planned: WeakTypes = tuple(type_.weak_type for type_ in self._types)
        self._result_types: dict[WeakTypes, list[ValueType]] = {}

    def find_result_types(self, weak_types: WeakTypes) -> list[ValueType]:
        """Return the types of the step's results if the arguments have these weak types.

        Raise ShapeError if the step would then compute in other types than planned.
        """
        if weak_types not in self._result_types:
            step = self._trace(weak_types)
            self._compare(weak_types, step)
            self._result_types[weak_types] = step.result_types
        return self._result_types[weak_types]

    def _trace(self, weak_types: WeakTypes) -> Step:
        pairs = zip(self._types, weak_types, strict=True)
        leaves = [jax.ShapeDtypeStruct(type_.shape, type_.dtype, weak_type=is_weak) for type_, is_weak in pairs]
        step, _ = trace_step(
            self._function, self._native.arguments_tree.unflatten(leaves), self._native.has_static_numbers
        )
        return step

    def _compare(self, weak_types: WeakTypes, step: Step) -> None:
        planned_step = self._native.of_one_device
        planned_equations, equations = _list_types(planned_step), _list_types(step)
        for (_, planned), (line, actual) in zip(planned_equations, equations, strict=False):
            if planned != actual:
                self._refuse(weak_types, f"at {line} it computes {actual[-1]}, and the plan computes {planned[-1]}")
        result_dtypes = {tuple(type_.dtype for type_ in each.result_types) for each in (planned_step, step)}
        if len(planned_equations) != len(equations) or len(result_dtypes) > 1:
            self._refuse(weak_types, "it computes results of other types than the plan")

    def _refuse(self, weak_types: WeakTypes, what: str) -> None:
        kind_by_weakness = {True: "a Python number (or computed from such alone)", False: "an array"}
        differences = [
            f"{name} is {kind_by_weakness[is_weak]}, and the step was planned for {kind_by_weakness[was_weak]} of {type_.dtype}"
            for name, type_, was_weak, is_weak in zip(self._names, self._types, self.planned, weak_types, strict=True)
            if was_weak != is_weak
        ]
        raise ShapeError(
            f"{'; '.join(differences[:3])}. JAX promotes their types differently: {what}. Pass the planned kind (np.float32(0.1) is an "
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
