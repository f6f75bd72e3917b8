from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def draw_integers(*shape: int, below: int, least: int = 0, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(least, below, shape).astype(np.int32)


def on_one_replica(step: Callable[..., Any], axis_name: str) -> Callable[..., Any]:

    def run(*arguments: Any) -> Any:
        arguments = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], arguments)
        return jax.tree.map(lambda leaf: leaf[0], jax.vmap(step, axis_name=axis_name)(*arguments))

    return run
