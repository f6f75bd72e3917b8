"""Training steps as JAX's users write them, small: in plain JAX, flax.linen, flax.nnx and equinox."""

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
"""A step, its state, which it returns first, and its other arguments."""

PACKAGES = {"linen": "flax", "nnx": "flax", "equinox": "equinox"}
"""The modules beside this one that need more than JAX -> the package."""


def load_models() -> dict[str, Callable[[str], Step]]:
    """Name -> the step in a type. Those of packages are in double precision alone, and are left out where the package is not installed."""

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
    """The arrays of a tree, in double precision; keys as what they hold. Functions and texts are left out."""
    arrays = [jnp.asarray(x) for x in jax.tree.leaves(tree) if hasattr(x, "dtype")]
    plain = [jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.extended) else x for x in arrays]
    return [np.asarray(x, complex if jnp.iscomplexobj(x) else float) for x in plain]
