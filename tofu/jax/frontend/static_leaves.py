"""What of the arguments and results of a step is arrays. The rest, functions and texts, is part of the step, as is what has no cells."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tofu.errors import UnsupportedError, raise_together
from tofu.jax.frontend.names import name_arguments

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, partial, np.ufunc, type)
"""Types of functions that hold no arrays which a step would train; beside them those that JAX makes, such as `jax.nn.relu`."""

T = TypeVar("T")

NUMBERS = (bool, int, float, complex)
TAKES_NUMBERS_AS_FIXED = ("equinox",)
"""Packages whose own `jit` takes numbers of Python's as part of a step; for `jax.jit` they are arrays."""


@jax.tree_util.register_static
@dataclass(frozen=True, eq=False)
class StaticLeaf:
    """A leaf that a step was traced with, in its place in a tree, which has no leaf there: a function, a text, a number, or an `Empty`."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticLeaf) and self._known_by == other._known_by

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


def _restore(one: StaticLeaf) -> Any:
    """What stood there; of an array without cells another one."""
    return jnp.zeros(one.value.shape, one.value.dtype) if isinstance(one.value, Empty) else one.value


@dataclass(frozen=True)
class Structure:
    """A tree without its arrays. It is put together again of arrays, or of what JAX traces a function with: constructors of users' classes
    may ask for these, and calls of `jax.jit` give them nothing else.

    `tree` has a leaf for each array and for each thing that is `fixed`, which is told by its position among them.
    """

    tree: Any
    static: tuple[tuple[int, StaticLeaf], ...] = ()

    @property
    def num_leaves(self) -> int:
        """How many arrays there are."""
        return int(self.tree.num_leaves) - len(self.static)

    def children(self) -> list[Structure]:
        """Those of the arguments, of a tuple of arguments."""
        made, begin = [], 0
        for tree in self.tree.children():
            end = begin + tree.num_leaves
            made.append(Structure(tree, tuple((n - begin, one) for n, one in self.static if begin <= n < end)))
            begin = end
        return made

    def split(self, arrays: Sequence[T]) -> list[list[T]]:
        """What there is for each array, child by child."""
        remaining = iter(arrays)
        return [list(islice(remaining, child.num_leaves)) for child in self.children()]

    def pick(self, leaves: Sequence[T]) -> list[T]:
        """Of what there is for each leaf, that of the arrays."""
        static = dict(self.static)
        return [leaf for n, leaf in enumerate(leaves) if n not in static]

    def unflatten(self, arrays: Iterable[Any], restore: Callable[[StaticLeaf], Any] | None = None) -> Any:
        """The tree of these arrays; `restore` gives what stands in it for what is fixed, by default what stood there."""
        remaining, static = iter(arrays), dict(self.static)
        restore = restore or _restore
        leaves = [restore(static[n]) if n in static else next(remaining) for n in range(self.tree.num_leaves)]
        return jax.tree.unflatten(self.tree, leaves)

    def strip_static(self) -> Any:
        """What it has in common with those in which other things are fixed, or none."""
        static, positions = dict(self.static), count()

        def visit(tree: Any) -> Any:
            data = tree.node_data()
            if data is None:
                return bool(tree.num_leaves) and next(positions) not in static
            return data, [visit(child) for child in tree.children()]

        return visit(self.tree)


def flatten_arrays(tree: Any, numbers: bool = False) -> tuple[list[Any], Structure]:
    """The arrays of a tree, and what is left of it; with `numbers`, those of Python are none of the arrays."""
    leaves, structure = jax.tree.flatten(tree, is_leaf=is_static)
    found = [StaticLeaf(leaf) if numbers and isinstance(leaf, NUMBERS) else _fix(leaf) for leaf in leaves]
    static = tuple((n, leaf) for n, leaf in enumerate(found) if is_static(leaf))
    return [leaf for leaf in found if not is_static(leaf)], Structure(structure, static)


def name_all(function: Callable[..., Any], arguments: Sequence[Any]) -> list[str]:
    """A name for each leaf of arguments, those that are fixed among them."""
    return name_arguments(function, arguments, is_leaf=is_static)


def describe_changed(names: Sequence[str], planned: Structure, given: Structure) -> str:
    """Which of the things that are fixed are others than was planned for, in a sentence each; nothing where trees differ. `names`: those of
    all leaves.
    """
    if planned.tree != given.tree:
        return ""
    now = dict(given.static)
    return "".join(
        f" {names[n]} is {now[n]!r}, and {before!r} is part of the step."
        for n, before in planned.static
        if n in now and before != now[n]
    )


@jax.tree_util.register_pytree_with_keys_class
class ArrayLeaves:
    """The arrays of an argument where JAX sees them, by the paths that they have in its tree, and without the classes in it."""

    def __init__(self, arrays: Sequence[Any], paths: tuple[str, ...]) -> None:
        self.arrays, self.paths = arrays, paths

    def tree_flatten_with_keys(self) -> tuple[list[tuple[str, Any]], tuple[str, ...]]:
        """The arrays by their paths."""
        return list(zip(self.paths, self.arrays, strict=True)), self.paths

    @classmethod
    def tree_unflatten(cls, paths: tuple[str, ...], arrays: Sequence[Any]) -> ArrayLeaves:
        """The same of other arrays."""
        return cls(arrays, paths)


def flatten_argument(tree: Any, numbers: bool = False) -> tuple[ArrayLeaves, Structure]:
    """An argument as a traced function is given it."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_static)
    arrays, structure = flatten_arrays(tree, numbers)
    return ArrayLeaves(arrays, tuple(structure.pick([jax.tree_util.keystr(path) for path, _ in paths]))), structure


def takes_static_numbers(step: Callable[..., Any]) -> bool:
    """Whether a step takes numbers of Python's as part of itself: `equinox.filter_jit` made it."""
    return type(step).__module__.partition(".")[0] in TAKES_NUMBERS_AS_FIXED


def check_leaf_types(names: Sequence[str], leaves: Sequence[Any]) -> None:
    """Raises UnsupportedError for leaves that are no arrays, nor anything that may be part of a step."""
    strange = ((name, leaf) for name, leaf in zip(names, leaves, strict=True) if not is_array(leaf))
    raise_together(
        UnsupportedError,
        "A step takes trees of arrays, numbers, functions and texts, and returns them. Give what it computes with as such a tree (of a "
        "flax.nnx module, nnx.split makes one), and the rest to the function before (functools.partial):",
        [f"{name} is of type {type(leaf).__module__}.{type(leaf).__qualname__}" for name, leaf in strange],
    )


def _fix(leaf: Any) -> Any:
    if is_array(leaf):
        return StaticLeaf(Empty(np.shape(leaf), leaf.dtype)) if 0 in np.shape(leaf) else leaf
    return StaticLeaf(leaf) if isinstance(leaf, (str, bytes)) or _is_function(leaf) else leaf


def is_static(leaf: Any) -> bool:
    """Whether it stands for what is no array."""
    return isinstance(leaf, StaticLeaf)


def is_array(leaf: Any) -> bool:
    """Whether it is an array, its shape, or a number of Python's."""
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return bool(leaf.dtype != np.dtype(object))
    return isinstance(leaf, NUMBERS) or hasattr(leaf, "__jax_array__")


def _is_function(leaf: Any) -> bool:
    return isinstance(leaf, FUNCTIONS) or (
        callable(leaf) and type(leaf).__module__.partition(".")[0] in ("jax", "jaxlib")
    )
