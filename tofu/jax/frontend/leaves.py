"""What of the arguments and results of a step is arrays. The rest, functions and texts, is part of the step, as is what has no cells."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tofu.errors import UnsupportedError, raise_together
from tofu.jax.frontend.names import name_arguments

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, partial, np.ufunc, type)
"""Types of functions that hold no arrays which a step would train; beside them those that JAX makes, such as `jax.nn.relu`."""

NUMBERS = (bool, int, float, complex)
TAKES_NUMBERS_AS_FIXED = ("equinox",)
"""Packages whose own `jit` takes numbers of Python's as part of a step; for `jax.jit` they are arrays."""


@jax.tree_util.register_static
@dataclass(frozen=True, eq=False)
class Fixed:
    """A leaf that a step was traced with, in its place in a tree, which has no leaf there: a function, a text, a number, or an `Empty`."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fixed) and self._known_by == other._known_by

    def __hash__(self) -> int:
        return hash(self._known_by)

    @property
    def _known_by(self) -> Any:
        """What two that are alike have in common. Python has 1, 1.0 and True equal, and 0.0 and -0.0, which are other steps."""
        return (type(self.value), repr(self.value)) if isinstance(self.value, NUMBERS) else self.value

    def __repr__(self) -> str:
        return str(getattr(self.value, "__name__", repr(self.value)))


@dataclass(frozen=True)
class Empty:
    """An array without cells."""

    shape: tuple[int, ...]
    dtype: Any


def _fill_in(value: Empty) -> Any:
    """The array without cells again."""
    return jnp.zeros(value.shape, value.dtype)


def fix_leaves(tree: Any, numbers: bool = False) -> Any:
    """The tree whose leaves are arrays alone; what else there was stands in it as `Fixed`, with `numbers` those of Python as well."""
    return jax.tree.map(lambda leaf: Fixed(leaf) if numbers and isinstance(leaf, NUMBERS) else _fix(leaf), tree)


def restore_leaves(tree: Any, empty: Callable[[Empty], Any] = _fill_in) -> Any:
    """The tree that was made so by `fix_leaves`; `empty` gives what stands in it for an array without cells."""

    def restore(leaf: Any) -> Any:
        if not _is_fixed(leaf):
            return leaf
        return empty(leaf.value) if isinstance(leaf.value, Empty) else leaf.value

    return jax.tree.map(restore, tree, is_leaf=_is_fixed)


def forget_fixed(tree: Any) -> Any:
    """The tree without what was fixed in it, whatever that was."""
    return jax.tree.map(lambda x: None if _is_fixed(x) else x, tree, is_leaf=_is_fixed)


def describe_changed(function: Callable[..., Any], planned: Sequence[Any], given: Sequence[Any]) -> str:
    """Which of the things that are fixed in arguments are others than was planned for, in a sentence each; nothing where trees differ."""
    if jax.tree.structure(forget_fixed(planned)) != jax.tree.structure(forget_fixed(given)):
        return ""
    names = name_arguments(function, planned, is_leaf=_is_fixed)
    pairs = zip(names, *(jax.tree.leaves(tree, is_leaf=_is_fixed) for tree in (planned, given)), strict=False)
    return "".join(
        f" {name} is {now!r}, and {before!r} is part of the step."
        for name, before, now in pairs
        if _is_fixed(before) and before != now
    )


def has_fixed(structure: Any) -> bool:
    """Whether something is fixed in trees of a structure."""
    tree = jax.tree.unflatten(structure, [0] * structure.num_leaves)
    return any(map(_is_fixed, jax.tree.leaves(tree, is_leaf=_is_fixed)))


def has_fixed_numbers(step: Callable[..., Any]) -> bool:
    """Whether a step takes numbers of Python's as part of itself: `equinox.filter_jit` made it."""
    return type(step).__module__.partition(".")[0] in TAKES_NUMBERS_AS_FIXED


def fix_results(step: Callable[..., Any], numbers: bool) -> Callable[..., Any]:
    """The step, of arguments as `fix_leaves` makes them, with results like them."""

    @wraps(step)
    def run(*arguments: Any) -> Any:
        return fix_leaves(step(*map(restore_leaves, arguments)), numbers)

    return run


def check_leaves(names: Sequence[str], arguments: Sequence[Any]) -> None:
    """Raises UnsupportedError for leaves of fixed arguments that are no arrays, nor anything that may be part of a step."""
    strange = (
        (name, leaf) for name, leaf in zip(names, jax.tree.leaves(arguments), strict=True) if not _is_array(leaf)
    )
    raise_together(
        UnsupportedError,
        "A step takes trees of arrays, numbers, functions and texts, and returns them. Give what it computes with as such a tree (of a "
        "flax.nnx module, nnx.split makes one), and the rest to the function before (functools.partial):",
        [f"{name} is of type {type(leaf).__module__}.{type(leaf).__qualname__}" for name, leaf in strange],
    )


def _fix(leaf: Any) -> Any:
    if _is_array(leaf):
        return Fixed(Empty(np.shape(leaf), leaf.dtype)) if 0 in np.shape(leaf) else leaf
    return Fixed(leaf) if isinstance(leaf, (str, bytes)) or _is_function(leaf) else leaf


def _is_fixed(leaf: Any) -> bool:
    return isinstance(leaf, Fixed)


def _is_array(leaf: Any) -> bool:
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return bool(leaf.dtype != np.dtype(object))
    return isinstance(leaf, NUMBERS) or hasattr(leaf, "__jax_array__")


def _is_function(leaf: Any) -> bool:
    return isinstance(leaf, FUNCTIONS) or (
        callable(leaf) and type(leaf).__module__.partition(".")[0] in ("jax", "jaxlib")
    )
