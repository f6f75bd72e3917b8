"""Language models: Llama, Mixtral, GPT-3, Llama with LoRA, and a step of Llama that draws tokens."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tests.models.jax.large.layers import (
    attend,
    attend_heads,
    find_cross_entropy,
    mask_later,
    normalize,
    normalize_rms,
    repeat_shapes,
    rotate,
    run_layers,
)
from tests.models.jax.large.training import (
    MIXED,
    LargeModel,
    Precision,
    count_parameters,
    make_state,
    shape_tree,
    train,
)
from tests.shared.parallelism import ACTIVATION_BYTES, StepSize

Tree = Any


def _shape_attention(width: int, heads: int, groups: int) -> dict[str, tuple[int, ...]]:
    head = width // heads
    return {
        "query": (width, groups, heads // groups, head),
        "key": (width, groups, head),
        "value": (width, groups, head),
        "out": (groups, heads // groups, head, width),
        "scale_1": (width,),
        "scale_2": (width,),
    }


def _shape_feed_forward(width: int, hidden: int) -> dict[str, tuple[int, ...]]:
    return {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}


def _shape_ends(width: int, vocabulary: int) -> dict[str, tuple[int, ...]]:
    return {"embedding": (vocabulary, width), "scale": (width,), "head": (width, vocabulary)}


def _attend_to_earlier(x: jax.Array, w: Tree, query: jax.Array | None = None, value: jax.Array | None = None) -> jax.Array:
    """Add causal attention with rotated queries and keys. LoRA passes its own products for queries and values."""
    h = normalize_rms(x, w["scale_1"])
    positions = jnp.arange(x.shape[1])
    q = jnp.einsum("btd,dgne->btgne", h, w["query"])
    k = jnp.einsum("btd,dge->btge", h, w["key"])
    v = jnp.einsum("btd,dge->btge", h, w["value"])
    if "query_down" in w:
        q = q + jnp.einsum("btr,rgne->btgne", h @ w["query_down"], w["query_up"])
        v = v + jnp.einsum("btr,rge->btge", h @ w["value_down"], w["value_up"])
    mixed = attend(rotate(q, positions), rotate(k, positions), v, mask_later(x.shape[1]))
    return x + jnp.einsum("btgne,gned->btd", mixed, w["out"])


def _run_llama_layer(x: jax.Array, w: Tree) -> jax.Array:
    x = _attend_to_earlier(x, w)
    h = normalize_rms(x, w["scale_2"])
    return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]


def _find_llama_loss(run_layer: Any, weights: Tree, data: Tree) -> jax.Array:
    x = run_layers(run_layer, weights["embedding"][data["tokens"]], weights["layers"])
    return find_cross_entropy(normalize_rms(x, weights["scale"]) @ weights["head"], data["targets"])


def _size_transformer(
    trained: int,
    batch: int,
    length: int,
    layers: int,
    width: int,
    hidden: int,
    heads: int,
    vocabulary: int,
    frozen: int = 0,
) -> StepSize:
    """Return the numbers of a Transformer with recomputed layers.

    Of one layer, the scores are alive in float32 and twice in bf16, beside four tensors of the width and three of the
    hidden width. The logits are alive twice in float32.
    """
    tokens = batch * length
    layer = tokens * (ACTIVATION_BYTES * (4 * width + 3 * hidden) + 8 * heads * length)
    return StepSize(
        trained,
        frozen,
        layers=layers,
        tokens=tokens,
        width=width,
        kept_bytes=ACTIVATION_BYTES * layers * tokens * width,
        inner_bytes=max(layer, 8 * tokens * vocabulary),
    )


def _shape_tokens(batch: int, length: int) -> Tree:
    return shape_tree({"tokens": (batch, length), "targets": (batch, length)}, "int32")


def llama(
    batch: int,
    layers: int,
    width: int,
    hidden: int,
    heads: int,
    groups: int,
    vocabulary: int = 128_256,
    length: int = 4096,
    is_scanned: bool = True,
    precision: Precision = MIXED,
) -> LargeModel:
    """Return a training step of Llama 3 (Grattafiori et al. 2024)."""
    layer = {**_shape_attention(width, heads, groups), **_shape_feed_forward(width, hidden)}
    shapes = {**_shape_ends(width, vocabulary), "layers": repeat_shapes(layer, layers, is_scanned)}
    weights = shape_tree(shapes, precision.weights)
    size = _size_transformer(count_parameters(weights), batch, length, layers, width, hidden, heads, vocabulary)
    step = train(partial(_find_llama_loss, _run_llama_layer))
    return LargeModel(step, make_state(weights, precision), _shape_tokens(batch, length), weights, size)
