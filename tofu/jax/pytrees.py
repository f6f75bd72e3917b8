"""Build trees of arrays for users, and plan another step on a planned step's state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import shorten
from typing import Any

import jax

from tofu.engine import Source
from tofu.errors import ShapeError, UnsupportedError, raise_together
from tofu.formatting import format_count
from tofu.jax.backend.uneven import UnevenArray
from tofu.jax.frontend.names import name_leaves
from tofu.jax.frontend.read_step import Native
from tofu.jax.frontend.static_leaves import StaticLeaf, Structure, flatten_arrays
from tofu.pipeline import Partition
from tofu.plan import DimensionChoice

MOST_LETTERS = 200  # limits a user's error message


def unflatten_arrays(structure: Structure, arrays: Sequence[Any]) -> Any:
    """Build a tree of arrays. Raise UnsupportedError if a class in the tree rejects an `UnevenArray`."""
    try:
        return structure.unflatten(arrays)
    except Exception as error:
        if not any(isinstance(array, UnevenArray) for array in arrays):
            raise
        raise UnsupportedError(
            "A pytree class does not accept a tofu.jax.UnevenArray, an array that these devices cannot share equally: it raises "
            f'{_show_error(error)}. Pass uneven="none" to tofu.jax.partition to replicate these arrays, or let the class '
            "accept anything with a shape and a dtype."
        ) from error


def _show_error(error: Exception) -> str:
    return shorten(f"{type(error).__name__}: {error}".rstrip(": "), MOST_LETTERS, placeholder=" ...")


def _show_tree(structure: Structure | None) -> str:
    if structure is None:
        return "not there"
    data, arrays = structure.tree.node_data(), format_count(structure.num_leaves, "array")
    if data is None:
        return "an array" if structure.num_leaves else "no array"
    node_type, fields = data
    if node_type is dict:
        arrays += f" with the keys {shorten(', '.join(map(str, fields)), MOST_LETTERS, placeholder=' ...')}"
    return f"a {node_type.__name__} of {arrays}"


def unflatten_values(
    structure: Structure, leaves: Sequence[Any], name: str, restore: Callable[[StaticLeaf], Any]
) -> Any:
    """Build a tree with `leaves`, such as shardings, in place of arrays.

    `restore` returns the value for a function, string or number in the tree. `name` is for error messages. Raise
    UnsupportedError if a class in the tree accepts only arrays.
    """
    try:
        return structure.unflatten(leaves, restore)
    except Exception as error:
        raise UnsupportedError(
            f"{name} is not available, since a pytree class among the step's arguments or results accepts nothing but arrays: it raises "
            f"{_show_error(error)}, given shardings. jax.tree.map and jax.jit(step).lower build it from other "
            "values too, so check values where users build it. Calls, place and memory_report work, and so does "
            "[x.sharding for x in jax.tree.leaves(step.place(state))]."
        ) from error


def matches_hint(hints: Mapping[str, Any], name: str, steps: DimensionChoice) -> bool:
    """Return True if the tensor `name` has no hint, or the hint `steps`.

    `steps` has the dimension that is split along each axis of the device grid. On a grid with two axes, the hint 0
    means (0, 0).
    """
    hint = hints.get(name, steps)
    return tuple(hint if isinstance(hint, (tuple, list)) else [hint] * len(steps)) == tuple(steps)


def copy_layouts(
    partition: Partition, source: Source, pairs: Sequence[tuple[int, int]]
) -> Mapping[str, DimensionChoice]:
    """Return hints to split values of `source` along the same dimensions as values of a planned step.

    `pairs` lists (number in `source`, number in the planned step) for each value.
    """
    native, planned = source.native, partition.source.native
    return {
        native.name_tensor(source.graph, number): partition.plan.tensors[planned.name_tensor(partition.graph, original)]
        for number, original in pairs
    }


def make_state_hints(source: Source, partition: Partition, part: Callable[[Any], Any]) -> Mapping[str, DimensionChoice]:
    """Return hints to split the first argument of `source` in the same way as the state of a planned step.

    `part` selects this argument from the state. Raise ShapeError if trees, shapes or types differ, or UnsupportedError
    if `part` returns anything but arrays of the state.
    """
    native, planned = source.native, partition.source.native
    numbers, state, paths = _trace_part(planned, part)
    argument = next(iter(native.arguments_tree.children()), None)
    if argument is None or argument.list_nodes() != state.list_nodes() or _list_paths(native)[: len(paths)] != paths:
        raise ShapeError(
            f"The first argument of the step is {_show_tree(argument)}, and the state {_show_tree(state)}. If it is a part of the state, "
            "pick that: part=lambda state: ..."
        )
    pairs = list(zip(native.step.inputs, numbers, strict=False))
    differences = []
    for name, (number, original) in zip(native.arguments_tree.pick(native.names), pairs, strict=False):
        types = native.step.types[number], planned.step.types[original]
        actual, expected = (f"{type_.dtype} of shape {type_.shape}" for type_ in types)
        if actual != expected:
            differences.append(f"{name} is {actual}, and {expected} in the state")
    raise_together(
        ShapeError, "The first argument of the step is not like the state, whose layouts it is to have:", differences
    )
    return copy_layouts(partition, source, pairs)


def _list_paths(native: Native) -> list[str]:
    """Return the path of each array in a step's arguments, without the names of the arguments."""
    return [name.partition("/")[2] for name in native.arguments_tree.pick(native.names)]


def _trace_part(planned: Native, part: Callable[[Any], Any]) -> tuple[list[int], Structure, list[str]]:
    state_structure, *_ = planned.arguments_tree.children()
    numbers = planned.step.inputs[: state_structure.num_leaves]
    types = [planned.step.types[number] for number in numbers]
    traced_parts: list[tuple[list[int | None], Structure, list[str]]] = []

    def trace(*leaves: Any) -> None:
        tree = part(state_structure.unflatten(leaves))
        arrays, structure = flatten_arrays(tree, planned.has_static_numbers)
        paths = structure.pick(name_leaves("", tree))
        number_of = {id(leaf): number for leaf, number in zip(leaves, numbers, strict=True)}
        traced_parts.append(([number_of.get(id(array)) for array in arrays], structure, paths))

    jax.eval_shape(trace, *(jax.ShapeDtypeStruct(type_.shape, type_.dtype) for type_ in types))
    picked, structure, paths = traced_parts[-1]
    if None in picked:
        raise UnsupportedError(
            "part= returns a value that is not in the state. It must pick a part of the state, as in "
            "part=lambda state: state.params."
        )
    return [number for number in picked if number is not None], structure, paths
