"""Separate arrays from *static* leaves in a step's arguments and results.

Static leaves are part of the step, and not data: functions, strings, arrays without elements and, if requested, Python
numbers.
"""

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

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, partial, np.ufunc, type)
"""Types of functions without trainable arrays. Functions made by JAX, such as `jax.nn.relu`, are accepted too."""

T = TypeVar("T")

NUMBERS = (bool, int, float, complex)
TAKES_STATIC_NUMBERS = ("equinox",)
"""Packages whose own `jit` treats Python numbers as static. `jax.jit` treats Python numbers as arrays."""


@jax.tree_util.register_static
@dataclass(frozen=True, eq=False)
class StaticLeaf:
    """A function, string, number or `Empty` array, wrapped so that JAX does not treat it as data."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticLeaf) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> Any:
        # 1, 1.0 and True are equal in Python, and so are 0.0 and -0.0, but they lead to different steps.
        return (type(self.value), repr(self.value)) if isinstance(self.value, NUMBERS) else self.value

    def __repr__(self) -> str:
        return str(getattr(self.value, "__name__", repr(self.value)))


@dataclass(frozen=True)
class Empty:
    """An array without elements."""

    shape: tuple[int, ...]
    dtype: Any


def _restore(leaf: StaticLeaf) -> Any:
    return jnp.zeros(leaf.value.shape, leaf.value.dtype) if isinstance(leaf.value, Empty) else leaf.value


@dataclass(frozen=True)
class Structure:
    """A tree without its arrays. `unflatten` builds the tree again.

    `tree` describes the nested containers, as JAX does. `static` has leaves that are not arrays, such as functions, and
    their positions.
    """

    tree: Any
    static: tuple[tuple[int, StaticLeaf], ...] = ()

    @property
    def num_leaves(self) -> int:
        """Number of arrays in the tree."""
        return int(self.tree.num_leaves) - len(self.static)

    def children(self) -> list[Structure]:
        """Return the structure of each child, such as each argument in a tuple of arguments."""
        structures, begin = [], 0
        for tree in self.tree.children():
            end = begin + tree.num_leaves
            structures.append(Structure(tree, tuple((n - begin, leaf) for n, leaf in self.static if begin <= n < end)))
            begin = end
        return structures

    def split(self, arrays: Sequence[T]) -> list[list[T]]:
        """Divide the arrays of the tree into one list for each child."""
        remaining = iter(arrays)
        return [list(islice(remaining, child.num_leaves)) for child in self.children()]

    def pick(self, leaves: Sequence[T]) -> list[T]:
        """Return `leaves` without those that are static, such as functions and strings."""
        static = dict(self.static)
        return [leaf for n, leaf in enumerate(leaves) if n not in static]

    def unflatten(self, arrays: Iterable[Any], restore: Callable[[StaticLeaf], Any] | None = None) -> Any:
        """Return the tree with these arrays. `restore` may replace static leaves, such as functions."""
        remaining, static = iter(arrays), dict(self.static)
        restore = restore or _restore
        leaves = [restore(static[n]) if n in static else next(remaining) for n in range(self.tree.num_leaves)]
        return jax.tree.unflatten(self.tree, leaves)

    def list_nodes(self) -> Any:
        """Return the types and keys of the nodes, without static fields and the values of static leaves."""
        static, positions = dict(self.static), count()

        def visit(tree: Any) -> Any:
            data = tree.node_data()
            if data is None:
                return bool(tree.num_leaves) and next(positions) not in static
            node_type, fields = data
            return node_type, fields if node_type is dict else None, [visit(child) for child in tree.children()]

        return visit(self.tree)


def flatten_arrays(tree: Any, static_numbers: bool = False) -> tuple[list[Any], Structure]:
    """Split a tree into its arrays and its structure.

    If `static_numbers` is True, Python numbers are part of the structure.
    """
    leaves, structure = jax.tree.flatten(tree, is_leaf=is_static)
    fixed_leaves = [
        StaticLeaf(leaf) if static_numbers and isinstance(leaf, NUMBERS) else _mark_static(leaf) for leaf in leaves
    ]
    static = tuple((n, leaf) for n, leaf in enumerate(fixed_leaves) if is_static(leaf))
    return [leaf for leaf in fixed_leaves if not is_static(leaf)], Structure(structure, static)


@jax.tree_util.register_pytree_with_keys_class
class ArrayLeaves:
    """The arrays of a user's tree, with their paths. JAX traces it instead of the user's classes."""

    def __init__(self, arrays: Sequence[Any], paths: tuple[str, ...]) -> None:
        self.arrays, self.paths = arrays, paths

    def tree_flatten_with_keys(self) -> tuple[list[tuple[str, Any]], tuple[str, ...]]:
        """Return the arrays and their paths, as JAX expects them."""
        return list(zip(self.paths, self.arrays, strict=True)), self.paths

    @classmethod
    def tree_unflatten(cls, paths: tuple[str, ...], arrays: Sequence[Any]) -> ArrayLeaves:
        """Return a tree with these paths and arrays."""
        return cls(arrays, paths)


def flatten_argument(tree: Any, static_numbers: bool = False) -> tuple[ArrayLeaves, Structure]:
    """Return the arrays of an argument as a tree that JAX can trace, and the structure of the argument."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_static)
    arrays, structure = flatten_arrays(tree, static_numbers)
    return ArrayLeaves(arrays, tuple(structure.pick([jax.tree_util.keystr(path) for path, _ in paths]))), structure


def takes_static_numbers(step: Callable[..., Any]) -> bool:
    """Return True if a step treats Python numbers as constants, as `equinox.filter_jit` does."""
    return type(step).__module__.partition(".")[0] in TAKES_STATIC_NUMBERS


def check_leaf_types(names: Sequence[str], leaves: Sequence[Any]) -> None:
    """Raise UnsupportedError for leaves that are not arrays or numbers."""
    unsupported = ((name, leaf) for name, leaf in zip(names, leaves, strict=True) if not is_array(leaf))
    raise_together(
        UnsupportedError,
        "A step takes and returns trees of arrays, numbers, functions and strings. Pass its data as such a tree (for a flax.nnx module, "
        "use nnx.split), and bind everything else to the function first (functools.partial):",
        [f"{name} is of type {type(leaf).__module__}.{type(leaf).__qualname__}" for name, leaf in unsupported],
    )


def _mark_static(leaf: Any) -> Any:
    if is_array(leaf):
        return StaticLeaf(Empty(np.shape(leaf), leaf.dtype)) if 0 in np.shape(leaf) else leaf
    return StaticLeaf(leaf) if isinstance(leaf, (str, bytes)) or _is_function(leaf) else leaf


def is_static(leaf: Any) -> bool:
    """Return True for a `StaticLeaf`."""
    return isinstance(leaf, StaticLeaf)


def is_array(leaf: Any) -> bool:
    """Return True for an array, a `jax.ShapeDtypeStruct`, or a Python number."""
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return bool(leaf.dtype != np.dtype(object))
    return isinstance(leaf, NUMBERS) or hasattr(leaf, "__jax_array__")


def _is_function(leaf: Any) -> bool:
    return isinstance(leaf, FUNCTIONS) or (
        callable(leaf) and type(leaf).__module__.partition(".")[0] in ("jax", "jaxlib")
    )
