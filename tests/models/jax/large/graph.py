"""A graph neural network on one large graph: GraphSAGE."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

from tests.models.jax.large.layers import find_cross_entropy
from tests.models.jax.large.training import LargeModel, Precision, make_model, shape_tree

Tree = Any
SINGLE = Precision("float32")


def sage(
    nodes: int, edges: int, widths: tuple[int, ...] = (100, 256, 256, 47), precision: Precision = SINGLE
) -> LargeModel:
    """Return a training step of GraphSAGE (Hamilton et al. 2017) with means of neighbours, with the widths for ogbn-products."""
    weights = shape_tree(
        [{"own": (a, b), "neighbour": (a, b), "bias": (b,)} for a, b in pairwise(widths)], precision.weights
    )

    def find_loss(weights: Tree, data: Tree) -> jax.Array:
        x, degrees = data["features"], jnp.maximum(jax.ops.segment_sum(jnp.ones(edges), data["to"], nodes), 1)
        for n, w in enumerate(weights):
            mean = jax.ops.segment_sum(x[data["from"]], data["to"], nodes) / degrees[:, None].astype(x.dtype)
            x = x @ w["own"] + mean @ w["neighbour"] + w["bias"]
            x = jax.nn.relu(x) if n + 1 < len(weights) else x
        return find_cross_entropy(x, data["labels"])

    data = {
        **shape_tree({"features": (nodes, widths[0])}, precision.weights),
        **shape_tree({"from": (edges,), "to": (edges,), "labels": (nodes,)}, "int32"),
    }
    data_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(data))
    # All devices gather the inputs of each layer, and reduce the gradients of all inputs but the features.
    exchanged = 4 * nodes * (sum(widths[:-1]) + sum(widths[1:-1]))
    size = {"samples": nodes, "layers": len(weights), "data_bytes": data_bytes, "exchanged_bytes": exchanged}
    return make_model(find_loss, weights, data, precision, **size)
