"""The examples: where each lies, and how its own code makes a step, a state and what else the step takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.campaigns.jax_examples_zoo.loading import load_definitions, load_module

Made = tuple[Callable[..., Any], tuple[Any, ...]]
"""A step and its arguments. What the step returns first is what it is given first next time."""


@dataclass(frozen=True)
class Example:
    """An example's file below the folder of all sources, what makes its step of what the file defines, and the type that it computes in."""

    path: str
    make: Callable[[Any], Made]
    dtype: str = "float64"
    has_training: bool = False  # the script trains as it is imported: its definitions alone are loaded

    def build(self, source: Path) -> Made:
        """The step and its arguments in that type, where `jax_enable_x64` is set for float64."""
        path = source / self.path
        load = load_definitions if self.has_training or path.suffix == ".ipynb" else load_module
        step, arguments = self.make(load(path))
        return step, as_type(arguments, self.dtype)


def as_type(tree: Any, dtype: str) -> Any:
    """A tree whose real numbers are of this type, but for those of half precision."""
    import jax
    import jax.numpy as jnp

    def convert(leaf: Any) -> Any:
        is_real = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.dtype.itemsize > 2
        return jnp.asarray(leaf, dtype) if is_real else leaf

    return jax.tree.map(convert, tree)


def load_examples() -> dict[str, Example]:
    """All of them by their names."""
    from tests.campaigns.jax_examples_zoo import of_deepmind, of_equinox, of_flax, of_jax, of_nnx

    found: dict[str, Example] = {}
    for module in (of_flax, of_nnx, of_equinox, of_deepmind, of_jax):
        found |= module.EXAMPLES
    return found
