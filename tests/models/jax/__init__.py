"""Small training steps in plain JAX, flax.linen, flax.nnx and equinox, as users write them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.models.jax.plain import STEPS

Step = tuple[Callable[..., Any], Any, tuple[Any, ...]]
"""A step, its state, which is also its first result, and its other arguments."""

PACKAGES = {"linen": "flax", "nnx": "flax", "equinox": "equinox"}
"""Modules of this folder that need a package besides JAX -> the package."""


def load_models() -> dict[str, Callable[[str], Step]]:
    """Return the builders of steps by name. Steps are in double precision. Packages that are not installed are left out."""

    def of_plain(name: str) -> Callable[[str], Step]:
        def build(dtype: str) -> Step:
            step, state, data = STEPS[name](dtype)
            return step, state, (data,)

        return build

    models = {name: of_plain(name) for name in STEPS}
    for module, package in PACKAGES.items():
        if find_spec(package):
            steps = import_module(f"{__name__}.{module}").MODELS
            models |= {f"{module}.{name}": lambda _, make=make: make() for name, make in steps.items()}
    return models


def as_numbers(tree: Any) -> list[np.ndarray]:
    """Return the arrays of a tree in double precision, and the data of keys. Functions and texts are left out."""
    arrays = [jnp.asarray(x) for x in jax.tree.leaves(tree) if hasattr(x, "dtype")]
    plain = [jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.extended) else x for x in arrays]
    return [np.asarray(x, complex if jnp.iscomplexobj(x) else float) for x in plain]
