"""Check the trees of arguments before JAX flattens them. Errors name the path of the wrong node.

If a tree contains itself, JAX would miscount the recursion depth, and later calls would fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any, TypeAlias

import jax
import numpy as np

from tofu.errors import UnsupportedError, raise_together
from tofu.jax.frontend.names import show_path, show_text
from tofu.validation import show_with_type

Path: TypeAlias = tuple[Any, ...]
"""JAX's keys from the root of a tree to a node."""
MOST_LEVELS = 400
"""JAX and Python can handle nearly 1,000 levels, but each level may also call functions of the user and of Tofu."""


def check_tree(name: str, tree: Any) -> None:
    """Raise UnsupportedError if nested containers contain themselves, are too deep, or have elements that JAX rejects."""
    faults: list[str] = []
    ancestors: list[int] = []  # ids of the nodes around the next node, outermost first
    remaining_by_level: list[Iterator[tuple[Path, Any]]] = [iter([((), tree)])]
    while remaining_by_level:
        path, node = next(remaining_by_level[-1], (None, None))
        if path is None:
            remaining_by_level.pop()
            ancestors[-1:] = []
            continue
        children = _flatten_level(name, path, node)
        if children is None:
            faults += (f"{_show_node(name, path)} {fault}" for fault in _list_faults(node))
            continue
        if id(node) in ancestors:
            raise UnsupportedError(
                f"{_show_node(name, path)} is a {type(node).__name__} that contains itself. Give each node of a tree one place in it."
            )
        if len(ancestors) == MOST_LEVELS:
            raise UnsupportedError(
                f"{name} has more than {MOST_LEVELS} levels, one within another: {_show_node(name, path)[:200]} ... Use a list in "
                "the place of what is linked."
            )
        remaining_by_level.append(iter(children))
        ancestors.append(id(node))
    raise_together(
        UnsupportedError,
        "These are not arrays of a type that JAX supports. Convert them, or bind them to the function first (functools.partial):",
        faults,
    )


def _show_node(name: str, path: Path) -> str:
    return show_text("/".join(filter(None, (name, show_path(name, path)))))


def _flatten_level(name: str, path: Path, node: Any) -> list[tuple[Path, Any]] | None:
    is_leaf = chain([False], repeat(True))  # False for the node itself, True for its children
    try:
        children, _ = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda _: next(is_leaf))
    except Exception as error:
        raise UnsupportedError(_describe_failure(_show_node(name, path), node, error)) from error
    if children and not children[0][0]:
        return None
    return [((*path, *key), child) for key, child in children]


def _describe_failure(path: str, node: Any, error: Exception) -> str:
    if isinstance(node, dict):
        type_names = dict.fromkeys(type(key).__name__ for key in node)
        return (
            f"{path} is a dict whose keys JAX cannot sort: they are of the types {', '.join(type_names)}. Use keys of one type that can be "
            "sorted, such as str."
        )
    return (
        f"{path} is a {type(node).__name__}, and the function that its class registered with JAX to flatten it failed: "
        f"{type(error).__name__}: {error}"
    )


def rebuild(name: str, build: Callable[[], Any]) -> Any:
    """Return `build()`, the tree of an argument. Raise UnsupportedError if a class rejects traced arrays."""
    try:
        return build()
    except Exception as error:
        raise UnsupportedError(
            f"{name} cannot be rebuilt from its arrays: a class in its tree raised {type(error).__name__}: {error}. Classes registered "
            "with JAX must accept traced arrays."
        ) from error


def are_alike(name: str, first: Any, second: Any) -> bool:
    """Return True if two tree structures are equal. Raise UnsupportedError if they cannot be compared."""
    try:
        return bool(first == second)
    except ValueError as error:
        path = _find_incomparable(name, first, second) or name
        raise UnsupportedError(
            f"{show_text(path)} has static fields that cannot be compared ({error.__cause__ or error}). Register "
            "arrays as leaves, and use values with a plain == otherwise, such as numbers, strings and tuples."
        ) from error


def _find_incomparable(path: str, first: Any, second: Any) -> str | None:
    first_data, second_data = first.node_data(), second.node_data()
    if first_data is None or second_data is None:
        return None
    try:
        if first_data[0] is not second_data[0] or not bool(first_data[1] == second_data[1]):
            return None
    except Exception:  # any error of a user's `==`
        return f"{path} (a {first_data[0].__name__})"
    child_pairs = enumerate(zip(first.children(), second.children(), strict=False))
    paths = (_find_incomparable(f"{path}/{n}", *pair) for n, pair in child_pairs)
    return next((child_path for child_path in paths if child_path), None)


def _list_faults(leaf: Any) -> Iterator[str]:
    if isinstance(leaf, np.ma.MaskedArray):
        yield "is a masked array; use its filled()"
        return
    try:
        dtype, shape = getattr(leaf, "dtype", None), getattr(leaf, "shape", None)
    except Exception as error:
        yield f"is a {type(leaf).__name__} whose shape or dtype raised {type(error).__name__}: {error}"
        return
    if dtype is None or shape is None or dtype == np.dtype(object):
        return  # not an array
    if not _is_number(dtype):
        yield f"has the dtype {dtype}"
    elif not _is_shape(shape):
        yield f"has the shape {show_with_type(shape)}"


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, (tuple, list)) and all(isinstance(n, (int, np.integer)) and n >= 0 for n in shape)


def _is_number(dtype: Any) -> bool:
    number_types = np.number, np.bool_, jax.dtypes.extended
    try:
        return dtype == jax.dtypes.float0 or any(jax.dtypes.issubdtype(dtype, each) for each in number_types)
    except TypeError:
        return False
