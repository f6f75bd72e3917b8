"""Mixed-precision training by optax's AdamW with clipped gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import optax

from tests.shared.parallelism import StepSize

Tree = Any
Loss = Callable[[Tree, Tree], jax.Array]
OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-4, b2=0.95, weight_decay=0.1))


@dataclass(frozen=True)
class Precision:
    """Types of weights and activations, and of the optimizer's master copy and moments."""

    weights: str = "bfloat16"
    master: str = "float32"


MIXED = Precision()


@dataclass(frozen=True)
class LargeModel:
    """A step, the shapes of its arguments `state` and `data`, and its size for formulas.

    `weights` has the shapes of the model's parameters, including frozen ones.
    """

    step: Callable[..., Any]
    state: Tree
    data: Tree
    weights: Tree
    size: StepSize


def shape_tree(tree: Tree, dtype: str) -> Tree:
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, dtype), tree, is_leaf=lambda s: isinstance(s, tuple))


def count_parameters(tree: Tree) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def make_state(weights: Tree, precision: Precision) -> Tree:
    """Return the state of training: weights, their master copy, and the optimizer's moments."""
    master = jax.tree.map(lambda w: jax.ShapeDtypeStruct(w.shape, precision.master), weights)
    return {"weights": weights, "master": master, "optimizer": jax.eval_shape(OPTIMIZER.init, master)}


def train(loss: Loss) -> Callable[..., Any]:
    def step(state: Tree, data: Tree) -> tuple[Tree, jax.Array]:
        weights, master = state["weights"], state["master"]
        value, gradients = jax.value_and_grad(loss)(weights, data)
        gradients = jax.tree.map(lambda g, m: g.astype(m.dtype), gradients, master)
        updates, moments = OPTIMIZER.update(gradients, state["optimizer"], master)
        master = optax.apply_updates(master, updates)
        weights = jax.tree.map(lambda m, w: m.astype(w.dtype), master, weights)
        return {"weights": weights, "master": master, "optimizer": moments}, value

    return step


def make_model(loss: Loss, weights: Tree, data: Tree, precision: Precision, **size: int) -> LargeModel:
    """Return a model that trains all its weights. `size` has the other numbers of its step."""
    return LargeModel(
        train(loss), make_state(weights, precision), data, weights, StepSize(count_parameters(weights), **size)
    )
