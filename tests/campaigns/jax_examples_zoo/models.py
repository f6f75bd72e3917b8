from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.campaigns.jax_examples_zoo.loading import load_definitions, load_module

Made = tuple[Callable[..., Any], tuple[Any, ...]]
"""A step and its arguments. The first result is the first argument of the next step."""


@dataclass(frozen=True)
class JaxExample:
    path: str
    make: Callable[[Any], Made]
    dtype: str = "float64"
    has_training: bool = False  # the script trains when imported, so only its definitions are loaded

    def build(self, source: Path) -> Made:
        """For float64, `jax_enable_x64` has to be set."""
        path = source / self.path
        load = load_definitions if self.has_training or path.suffix == ".ipynb" else load_module
        step, arguments = self.make(load(path))
        return step, as_type(arguments, self.dtype)


def as_type(tree: Any, dtype: str) -> Any:
    import jax
    import jax.numpy as jnp

    def convert(leaf: Any) -> Any:
        is_real = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.dtype.itemsize > 2
        return jnp.asarray(leaf, dtype) if is_real else leaf

    return jax.tree.map(convert, tree)


def load_examples() -> dict[str, JaxExample]:
    from tests.campaigns.jax_examples_zoo import of_deepmind, of_equinox, of_flax, of_jax, of_nnx

    examples: dict[str, JaxExample] = {}
    for module in (of_flax, of_nnx, of_equinox, of_deepmind, of_jax):
        examples |= module.EXAMPLES
    return examples
