"""Trees that a user is given: of arrays that were laid out, and of where they lie; and the state of one step as that of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import jax

from tofu.engine import Source
from tofu.errors import ShapeError, UnsupportedError, raise_together
from tofu.jax.backend.uneven import UnevenArray
from tofu.jax.frontend.static_leaves import StaticLeaf, Structure, flatten_arrays
from tofu.pipeline import Partition
from tofu.plan import DimensionChoice, format_count

MOST_LETTERS = 200  # of a user's error


def unflatten_arrays(structure: Structure, arrays: Sequence[Any]) -> Any:
    """The tree of arrays that have been laid out. Raises UnsupportedError where a class in it does not take one of unequal parts."""
    try:
        return structure.unflatten(arrays)
    except Exception as error:
        if not any(isinstance(array, UnevenArray) for array in arrays):
            raise
        raise UnsupportedError(
            "A class of pytrees does not take a tofu.jax.UnevenArray, which is what has no equal parts for these devices: it raises "
            f'{_show_error(error)}. Give tofu.jax.partition uneven="none", so that each device holds all of these arrays, or let the class '
            "take whatever has a shape and a dtype."
        ) from error


def _show_error(error: Exception) -> str:
    """One line of an error of the user's."""
    return shorten(f"{type(error).__name__}: {error}".rstrip(": "), MOST_LETTERS, placeholder=" ...")


def _show_tree(structure: Structure | None) -> str:
    """A tree in a message: the class at its root, and how many arrays it has."""
    if structure is None:
        return "not there"
    data, arrays = structure.tree.node_data(), format_count(structure.num_leaves, "array")
    if data is None:
        return "an array" if structure.num_leaves else "no array"
    kind, fields = data
    keys = (
        f" with the keys {shorten(', '.join(map(str, fields)), MOST_LETTERS, placeholder=' ...')}"
        if kind is dict
        else ""
    )
    return f"a {kind.__name__} of {arrays}{keys}"


def unflatten_values(
    structure: Structure, leaves: Sequence[Any], what: str, restore: Callable[[StaticLeaf], Any]
) -> Any:
    """A tree of something else than arrays, for `what`. Raises UnsupportedError where a class in it takes nothing but arrays."""
    try:
        return structure.unflatten(leaves, restore)
    except Exception as error:
        raise UnsupportedError(
            f"A step has no {what} where a class of pytrees among its arguments or results takes nothing but arrays: it raises "
            f"{_show_error(error)}, made of shardings. JAX's own jax.tree.map and jax.jit(step).lower make it of other things "
            "than arrays as well; checks belong where users make it, not where JAX does. Calls, place and memory_report work, and so does "
            "[x.sharding for x in jax.tree.leaves(step.place(state))]."
        ) from error


def matches_hint(hints: Mapping[str, Any], name: str, steps: DimensionChoice) -> bool:
    """Whether hints say nothing of a tensor, or that it is split along these dimensions: one for each step, or one for all."""
    hint = hints.get(name, steps)
    return tuple(hint if isinstance(hint, (tuple, list)) else [hint] * len(steps)) == tuple(steps)


@dataclass(frozen=True)
class _PlacedLeaf:
    """A leaf of an argument, and the dimension that is split at each step."""

    shape: tuple[int, ...]
    dtype: Any
    steps: DimensionChoice

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


def read_state_layouts(partition: Partition, part: Callable[[Any], Any]) -> tuple[list[_PlacedLeaf], Structure]:
    """Where the leaves lie of a part of the first argument, and what is left of its tree. Raises UnsupportedError where it has others."""
    native, plan = partition.source.native, partition.plan
    first, *_ = native.arguments_tree.children()
    numbers = native.step.inputs[: first.num_leaves]
    types = [native.step.types[number] for number in numbers]
    found: list[tuple[list[int | None], Structure]] = []

    def trace(*leaves: Any) -> None:
        arrays, structure = flatten_arrays(part(first.unflatten(leaves)), native.has_static_numbers)
        position_of = {id(leaf): position for position, leaf in enumerate(leaves)}
        found.append(([position_of.get(id(array)) for array in arrays], structure))

    jax.eval_shape(trace, *(jax.ShapeDtypeStruct(type_.shape, type_.dtype) for type_ in types))
    positions, structure = found[-1]
    if None in positions:
        raise UnsupportedError(
            "part= gives something else than the state has, computed from it maybe. It picks a part of the state, as in "
            "part=lambda state: state.params."
        )
    names = [partition.graph.tensors[native.tensor_of[number]].name for number in numbers]
    picked = [position for position in positions if position is not None]
    laid = [_PlacedLeaf(types[n].shape, types[n].dtype, plan.tensors[names[n]]) for n in picked]
    return laid, structure


def make_state_hints(source: Source, leaves: Sequence[_PlacedLeaf], state: Structure) -> Mapping[str, DimensionChoice]:
    """Hints that lay out the first argument of a step like these leaves. Raises ShapeError where it has others."""
    native = source.native
    first = next(iter(native.arguments_tree.children()), None)
    if first is None or first.strip_static() != state.strip_static():
        raise ShapeError(
            f"The first argument of the step is {_show_tree(first)}, and the state {_show_tree(state)}. Where it is a part of the state, "
            "say which: part=lambda state: ..."
        )
    numbers = native.step.inputs[: len(leaves)]
    differing = []
    for name, number, leaf in zip(native.arguments_tree.pick(native.names), numbers, leaves, strict=False):
        type_ = native.step.types[number]
        if (type_.shape, type_.dtype) != (leaf.shape, leaf.dtype):
            differing.append(f"{name} is {type_.dtype} of shape {type_.shape}, and {leaf} in the state")
    raise_together(
        ShapeError, "The first argument of the step is not like the state, whose layouts it is to have:", differing
    )
    names = (source.graph.tensors[native.tensor_of[number]].name for number in numbers)
    return {name: leaf.steps for name, leaf in zip(names, leaves, strict=True)}
