"""Flatten the arguments of a call, and compare them with the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from tofu.errors import ShapeError, UnsupportedError
from tofu.jax.argument_checks import WeakTypes, check_leaves, describe_type_difference, list_weak, refuse_weak_types
from tofu.jax.frontend.names import (
    describe_difference,
    describe_node_difference,
    name_arguments,
    name_leaves,
    name_parameters,
)
from tofu.jax.frontend.read_step import Native
from tofu.jax.frontend.static_leaves import describe_changed, flatten_arrays, is_static
from tofu.jax.frontend.trace import trace_step
from tofu.jax.frontend.value_types import ValueType
from tofu.validation import show


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
        self._result_types: dict[WeakTypes, list[ValueType]] = {}

    def split(self, values: Sequence[Any]) -> list[list[Any]]:
        """Divide `values` into one list per argument. There is a value for each array."""
        return self._native.arguments_tree.split(values)

    def flatten(self, args: Sequence[Any]) -> list[Any]:
        """Return the arrays in the arguments of a call.

        Raise ShapeError if a tree, shape or type differs from the plan, or UnsupportedError for a deleted array.
        """
        arguments, planned = tuple(args), self._native.arguments_tree
        leaves: list[Any]
        leaves, tree = jax.tree.flatten(arguments)
        if planned.static or tree != planned.tree:  # the fast path: this runs in every step
            leaves, structure = flatten_arrays(arguments, self._native.has_static_numbers)
            if structure != planned:
                planned_names, given_names = self._native.names, name_arguments(self._step, arguments, is_static)
                difference = describe_difference(planned.pick(planned_names), structure.pick(given_names))
                difference = difference or describe_changed(planned_names, planned, structure)
                detail = difference or self._describe_first_difference(structure.tree)
                raise ShapeError(
                    f"The step was planned for other arguments.{detail} Call tofu.jax.partition again for these, or give others."
                )
        check_leaves(leaves, self.types, self.names)
        return leaves

    def flatten_one(self, value: Any, argument: int) -> list[Any]:
        """Return the arrays in the argument at position `argument`.

        Raise UnsupportedError for an unknown position, or ShapeError if the tree differs from the plan.
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
            difference = describe_difference(planned_names, structure.pick(name_leaves(name, value, is_static)))
            difference = difference or describe_node_difference(planned.tree, structure.tree, name)
            raise ShapeError(
                f"The value does not match {name}, argument {argument} of the step.{difference} To place another argument, pass its "
                "number, as in place(batch, argument=1)."
            )
        return leaves

    def find_result_types(self, leaves: Sequence[Any]) -> list[ValueType] | None:
        """Return the types of the results, or None if they are as planned.

        Weak types may change if a call passes an array in place of a Python number. Raise ShapeError if dtypes would
        change.
        """
        weak_types = list_weak(leaves)
        if weak_types == self._planned_weak_types:
            return None
        if weak_types not in self._result_types:
            pairs = zip(self.types, weak_types, strict=True)
            structs = [jax.ShapeDtypeStruct(type_.shape, type_.dtype, weak_type=is_weak) for type_, is_weak in pairs]
            arguments = self._native.arguments_tree.unflatten(structs)
            step, _ = trace_step(self._step, arguments, self._native.has_static_numbers)
            if problem := describe_type_difference(self._native.original, step):
                refuse_weak_types(self.names, self.types, weak_types, problem)
            self._result_types[weak_types] = step.result_types
        return self._result_types[weak_types]

    def _describe_first_difference(self, tree: Any) -> str:
        planned_trees = self._native.arguments_tree.tree.children()
        pairs = zip(planned_trees, tree.children(), name_parameters(self._step, len(planned_trees)), strict=False)
        differences = (describe_node_difference(*pair) for pair in pairs)
        return next(filter(None, differences), f" It has {len(planned_trees)}, and {len(tree.children())} are given.")
