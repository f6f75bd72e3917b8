"""Layers that the large models share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Tree = Any


def widen(x: jax.Array) -> jax.Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def normalize_rms(x: jax.Array, scale: jax.Array) -> jax.Array:
    wide = widen(x)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(x.dtype) * scale


def normalize(x: jax.Array) -> jax.Array:
    wide = widen(x)
    centred = wide - jnp.mean(wide, -1, keepdims=True)
    return (centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5)).astype(x.dtype)


def rotate(x: jax.Array, positions: jax.Array, base: float = 5e5) -> jax.Array:
    """Rotate pairs of elements of (batch, position, ..., head) by angles that grow with the position (RoPE)."""
    half = x.shape[-1] // 2
    frequencies = base ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = positions[:, None] * frequencies
    angles = angles.reshape(angles.shape[0], *(1,) * (x.ndim - 3), half)
    cosine, sine = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    left, right = x[..., :half], x[..., half:]
    return jnp.concatenate([left * cosine - right * sine, right * cosine + left * sine], -1)


def attend(query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Attend with grouped queries (batch, position, group, head of the group, element)."""
    scores = widen(jnp.einsum("btgne,bsge->bgnts", query, key)) / query.shape[-1] ** 0.5
    scores = scores if mask is None else jnp.where(mask, scores, -1e30)
    return jnp.einsum("bgnts,bsge->btgne", jax.nn.softmax(scores).astype(query.dtype), value)


def attend_heads(query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    scores = widen(jnp.einsum("bthe,bshe->bhts", query, key)) / query.shape[-1] ** 0.5
    scores = scores if mask is None else jnp.where(mask, scores, -1e30)
    return jnp.einsum("bhts,bshe->bthe", jax.nn.softmax(scores).astype(query.dtype), value)


def mask_later(length: int) -> jax.Array:
    return jnp.tril(jnp.ones((length, length), bool))


def find_cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean cross-entropy, in at least single precision."""
    logits = widen(logits)
    chosen = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - chosen)


def run_layers(layer: Callable[[jax.Array, Tree], jax.Array], x: jax.Array, weights: Tree) -> jax.Array:
    """Run layers that are recomputed in the backward pass. `weights` is a list of layers, or a tree of stacked layers."""
    layer = jax.checkpoint(layer)
    if not isinstance(weights, list):
        return jax.lax.scan(lambda x, w: (layer(x, w), None), x, weights)[0]
    for one in weights:
        x = layer(x, one)
    return x


def repeat_shapes(shapes: Tree, layers: int, is_scanned: bool) -> Tree:
    """Return the shapes of layers, stacked in one tree or as a list of trees."""
    if not is_scanned:
        return [shapes] * layers
    return {name: (layers, *shape) for name, shape in shapes.items()}
