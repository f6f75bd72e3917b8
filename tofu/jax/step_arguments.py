"""Flatten the arguments of a call, and compare them with the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.extend import core

from tofu.errors import ShapeError, UnsupportedError
from tofu.jax.backend.uneven import UnevenArray
from tofu.jax.frontend.equations import Step
from tofu.jax.frontend.names import (
    describe_difference,
    describe_node_difference,
    name_arguments,
    name_leaves,
    name_parameters,
)
from tofu.jax.frontend.read_step import Native
from tofu.jax.frontend.static_leaves import NUMBERS, Structure, flatten_arrays, is_array
from tofu.jax.frontend.step_difference import describe_step_difference, list_static_differences
from tofu.jax.frontend.trace import Traced, trace_step
from tofu.jax.frontend.value_types import ValueType, find_dtype
from tofu.jax.frontend.versions import Line
from tofu.validation import show, show_with_type

WeakTypes: TypeAlias = "tuple[bool, ...]"
"""True for each value with a weak type. JAX gives Python numbers a weak type, so that `x * 0.1` has the type of `x`."""
MOST_VARIANTS = 32
"""Limits the memory of a step whose static data differ in each call."""
CREATE_ONCE = " For example, create an optimizer once, outside of the function that makes the state."


@dataclass(frozen=True, eq=False)
class Variant:
    """The planned step for one set of static data, such as functions in its arguments.

    All variants of a step compute the same results. Their trees and their derivatives may differ.
    """

    arguments_tree: Structure
    results_tree: Structure
    jaxpr: core.ClosedJaxpr
    result_types: dict[WeakTypes, list[ValueType]] = field(default_factory=dict)
    """The types of the results, for arguments with other weak types than planned."""


class StepArguments:
    """The arguments that a step was planned for.

    Attributes
    ----------
    names, types
        Name, shape and type of each array.
    trees
        The tree of each argument.
    """

    def __init__(self, step: Callable[..., Any], native: Native, names: Sequence[str]) -> None:
        self.names, self.types = names, [native.step.types[number] for number in native.step.inputs]
        self.trees = native.arguments_tree.children()
        self._step, self._native = step, native
        self._planned_weak_types = tuple(type_.weak_type for type_ in self.types)
        self._variants = [Variant(native.arguments_tree, native.results_tree, native.jaxpr)]  # the latest is first

    def split(self, values: Sequence[Any]) -> list[list[Any]]:
        """Divide a list with a value for each array into one list for each argument."""
        return self._native.arguments_tree.split(values)

    def flatten(self, args: Sequence[Any]) -> tuple[list[Any], Variant]:
        """Return the arrays in the arguments of a call, and the variant of the step for their static data.

        For new static data, trace the step again. Raise ShapeError if a tree, shape or type differs from the plan, or
        if the step computes something else with this static data. Raise UnsupportedError for a deleted array.
        """
        arguments = tuple(args)
        leaves: list[Any]
        leaves, tree = jax.tree.flatten(arguments)
        for variant in self._variants:  # the fast path: this runs in every step
            if tree == variant.arguments_tree.tree and not variant.arguments_tree.static:
                check_leaves(leaves, self.types, self.names)
                return leaves, variant
        leaves, structure = flatten_arrays(arguments, self._native.has_static_numbers)
        known = next((variant for variant in self._variants if variant.arguments_tree == structure), None)
        if known is None:
            self._check_paths(arguments, structure)
        check_leaves(leaves, self.types, self.names)
        return leaves, known or self._add_variant(structure)

    def _check_paths(self, arguments: tuple[Any, ...], structure: Structure) -> None:
        planned, names = self._native.arguments_tree, structure.pick(name_arguments(self._step, arguments))
        planned_names = planned.pick(self._native.names)
        if names == planned_names and structure.list_nodes() == planned.list_nodes():
            return
        difference = describe_difference(planned_names, names) or self._describe_first_difference(structure.tree)
        raise ShapeError(
            f"The step was planned for other arguments.{difference} Call tofu.jax.partition again for these, or give others."
        )

    def _add_variant(self, structure: Structure) -> Variant:
        step, traced = self._trace(structure, self._planned_weak_types)
        if problem := describe_step_difference(self._native.original, step):
            planned, names = self._native.arguments_tree, self._native.names
            parameters = name_parameters(self._step, len(self.trees))
            differences = list(list_static_differences(parameters, names, planned, structure))
            is_recreated = any(" is another " in difference for difference in differences)
            raise ShapeError(
                f"The step was planned for other arguments. {'. '.join(differences[:3])}. So the step would compute something else: "
                f"{problem}. Call tofu.jax.partition again for these, or pass the planned functions and values."
                + (CREATE_ONCE if is_recreated else "")
            )
        variant = Variant(structure, traced.results_tree, traced.jaxpr)
        self._variants = [
            variant,
            *self._variants[: MOST_VARIANTS - 1],
        ]  # never changed in place: other threads read it
        return variant

    def _trace(self, structure: Structure, weak_types: WeakTypes) -> tuple[Step, Traced]:
        pairs = zip(self.types, weak_types, strict=True)
        structs = [jax.ShapeDtypeStruct(type_.shape, type_.dtype, weak_type=is_weak) for type_, is_weak in pairs]
        return trace_step(self._step, structure.unflatten(structs), self._native.has_static_numbers)

    def flatten_one(self, value: Any, argument: int) -> tuple[list[Any], Structure]:
        """Return the arrays and the structure of the argument at position `argument`.

        Static data, such as functions, may differ from the plan. Raise UnsupportedError for an unknown position, and
        ShapeError for other differences of the tree.
        """
        if argument not in range(len(self.trees)):
            raise UnsupportedError(
                f"argument is {show(argument)}; it must be one of the step's arguments 0 to {len(self.trees) - 1}."
            )
        leaves, structure = flatten_arrays(value, self._native.has_static_numbers)
        planned = self.trees[argument]
        if structure != planned:
            name = name_parameters(self._step, len(self.trees))[argument]
            planned_names = self.split(self._native.arguments_tree.pick(self._native.names))[argument]
            names = structure.pick(name_leaves(name, value))
            if names != planned_names or structure.list_nodes() != planned.list_nodes():
                difference = describe_difference(planned_names, names)
                difference = difference or describe_node_difference(planned.tree, structure.tree, name)
                raise ShapeError(
                    f"The value does not match {name}, argument {argument} of the step.{difference} To place another argument, pass its "
                    "number, as in place(batch, argument=1)."
                )
        return leaves, structure

    def find_result_types(self, leaves: Sequence[Any], variant: Variant) -> list[ValueType] | None:
        """Return the types of the results, or None if they are as planned.

        Weak types may change if a call passes an array in place of a Python number. Raise ShapeError if dtypes would
        change.
        """
        weak_types = list_weak(leaves)
        if weak_types == self._planned_weak_types:
            return None
        if weak_types not in variant.result_types:
            step, _ = self._trace(variant.arguments_tree, weak_types)
            if problem := describe_type_difference(self._native.original, step):
                refuse_weak_types(self.names, self.types, weak_types, problem)
            variant.result_types[weak_types] = step.result_types
        return variant.result_types[weak_types]

    def _describe_first_difference(self, tree: Any) -> str:
        planned_trees = self._native.arguments_tree.tree.children()
        pairs = zip(planned_trees, tree.children(), name_parameters(self._step, len(planned_trees)), strict=False)
        differences = (describe_node_difference(*pair) for pair in pairs)
        return next(filter(None, differences), f" It has {len(planned_trees)}, and {len(tree.children())} are given.")


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
