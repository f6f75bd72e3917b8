"""Name tensors by their paths in the step's arguments, and operators by the named scopes around them."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import jax
import jax.scipy.special

from tofu.errors import UnsupportedError, suggest
from tofu.formatting import list_some
from tofu.jax.frontend.static_leaves import is_static


def name_arguments(function: Callable[..., Any], arguments: Sequence[Any]) -> list[str]:
    """Return a name for each leaf, such as "params/layer_3/mlp/kernel" for the argument `params`."""
    return [
        name
        for argument, tree in zip(name_parameters(function, len(arguments)), arguments, strict=True)
        for name in name_leaves(argument, tree)
    ]


def name_leaves(argument: str, tree: Any) -> list[str]:
    """Return a name for each leaf of an argument, such as "params/layer_3/mlp/kernel"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree, is_static)
    return ["/".join(filter(None, (argument, show_path(argument, path)))) for path, _ in leaves]


def describe_difference(planned: Sequence[str], passed: Sequence[str]) -> str:
    """Describe names that are missing in one of the two lists. Return "" if no name is missing."""
    missing = [name for name in planned if name not in set(passed)]
    unplanned = [name for name in passed if name not in set(planned)]
    return "".join(
        f" {heading}: {list_some(names)}."
        for heading, names in (("Missing", missing), ("Not planned for", unplanned))
        if names
    )


def describe_node_difference(planned: Any, passed: Any, path: str) -> str:
    """Describe the first node in which two trees differ, such as a list instead of a tuple.

    Return "" if only static fields differ. The leaves of both trees must have equal names. `path` is the name of the
    tree.
    """
    planned_data, passed_data = planned.node_data(), passed.node_data()
    if planned_data is None or passed_data is None:
        return ""
    (node_type, fields), children = planned_data, planned.children()
    if passed_data[0] is not node_type:
        return f" {path} is a {passed_data[0].__name__}, and was planned as a {node_type.__name__}."
    if len(passed.children()) != len(children):
        return f" {path} is a {node_type.__name__} of {len(passed.children())}, and was planned with {len(children)}."
    if node_type is dict and passed_data[1] != fields:
        return f" {path} is a dict with the keys {list_some(passed_data[1])}, and was planned with {list_some(fields)}."
    paths = (f"{path}/{key}" for key in name_children(planned))
    differences = map(describe_node_difference, children, passed.children(), paths)
    return next((difference for difference in differences if difference), "")


def name_children(tree: Any) -> Sequence[Any]:
    """Return a name for each child of a node, such as its keys if the node is a dict."""
    (node_type, fields), count = tree.node_data(), len(tree.children())
    names = fields if node_type is dict else getattr(node_type, "_fields", ())
    names = names or _list_fields(node_type, wants_static=False)
    return names if len(names) == count else range(count)


def name_static_fields(node_type: Any, count: int) -> Sequence[str]:
    """Return a name for each static field of a class of nodes."""
    names = _list_fields(node_type, wants_static=True)
    return names if len(names) == count else [f"static field {n}" for n in range(count)]


def _list_fields(node_type: Any, wants_static: bool) -> list[str]:
    if not dataclasses.is_dataclass(node_type):
        return []
    return [
        field.name
        for field in dataclasses.fields(node_type)
        # JAX and equinox mark static fields by "static", and flax by "pytree_node"
        if bool(field.metadata.get("static") or not field.metadata.get("pytree_node", True)) == wants_static
    ]


def order_arguments(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of a call in the order of the function's parameters.

    Raise UnsupportedError for unknown or keyword-only parameters.
    """
    if not named:
        return tuple(args)
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **named)
    except TypeError as error:
        unknown = [f"{name}{suggest(name, signature.parameters)}" for name in named if name not in signature.parameters]
        problem = f"it has no {', '.join(unknown)}" if unknown else str(error)
        raise UnsupportedError(
            f"The arguments do not match the step's parameters: {problem}. The signature is step{signature}."
        ) from error
    if bound.kwargs:
        raise UnsupportedError(
            f"{', '.join(bound.kwargs)} can be given to the step by name alone. Give it to the function before (functools.partial)."
        )
    return bound.args


def show_path(tree: str, path: Any) -> str:
    """Return the path of a leaf as text. Raise UnsupportedError if `str` of a key fails."""
    try:
        return str(jax.tree_util.keystr(path, simple=True, separator="/"))
    except Exception as error:
        raise UnsupportedError(
            f"{show_text(tree)} has a key that cannot be shown: its text raised {type(error).__name__}: {error}. Use keys such as texts "
            "and whole numbers."
        ) from error


def show_text(text: str) -> str:
    """Return `text` with an escape sequence in place of each character that UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode()


def name_parameters(function: Callable[..., Any], count: int) -> list[str]:
    """Return the names of the first `count` parameters."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a callable without a signature
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return (positional + [f"arg{n}" for n in range(len(positional), count)])[:count]


TRANSFORMED = re.compile(r"\w+\(([^()]*)\)")
NOT_THE_USERS = frozenset(
    ("body", "checkpoint", "closed_call", "cond", "remat", "rematted_computation", "scan", "shard_map", "while")
)
"""Scopes that JAX adds by itself."""


@lru_cache(4096)
def find_user_scope(scope: str) -> str:
    """Return a scope without the parts that JAX added.

    For example, "transpose(jvp(encoder))/block_0/btd,dh->bth/silu" becomes "encoder/block_0".
    """
    count = 1
    while count:
        scope, count = TRANSFORMED.subn(r"\1", scope)
    return "/".join(name for name in scope.split("/") if name and not _is_of_jax(name))


@cache
def _is_of_jax(name: str) -> bool:
    if name in NOT_THE_USERS or name.startswith(("_", "<", "branch_")) or not name.isidentifier():
        return True
    return any(hasattr(module, name) for module in (jax.nn, jax.numpy, jax.lax, jax.random, jax.scipy.special))


class UniqueNames:
    """A set of distinct names."""

    def __init__(self, names_in_use: Sequence[str] = ()) -> None:
        self._names_in_use = set(names_in_use)
        self._counts_by_name: Counter[str] = Counter()

    def take(self, requested_name: str) -> str:
        """Return `requested_name`. If it is in use, append "_1", "_2" and so on.

        Raise UnsupportedError for a name that UTF-8 cannot encode.
        """
        if show_text(requested_name) != requested_name:
            raise UnsupportedError(
                f"The name {show_text(requested_name)} has half of a character (a lone surrogate), and cannot be saved in a plan. Rename "
                "the key or the scope."
            )
        name = requested_name
        while name in self._names_in_use:
            self._counts_by_name[requested_name] += 1
            name = f"{requested_name}_{self._counts_by_name[requested_name]}"
        self._names_in_use.add(name)
        return name
