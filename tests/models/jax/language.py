"""Training steps in plain JAX, from shapes alone: (state, data) -> (state, loss)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tests.models.jax.plain import adam, convolve, cross_entropy, dense_loss, descend, lstm_cell

Tree = Any


@dataclass(frozen=True)
class StepModel:
    """A step, the shapes of its arguments, and the extent of the batch."""

    step: Callable[..., Any]
    state: Tree
    data: Tree
    batch: int


def _shapes(tree: Tree, dtype: str = "float32") -> Tree:
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, dtype), tree, is_leaf=lambda s: isinstance(s, tuple))


def _with_adam(params: Tree) -> Tree:
    return params, params, params, jax.ShapeDtypeStruct((), "float32")


def mlp(batch: int = 256, width: int = 1024, layers: int = 4, classes: int = 64) -> StepModel:
    params = _shapes([{"w": (width, width), "b": (width,)}] * layers + [{"w": (width, classes), "b": (classes,)}])

    data = _shapes((batch, width)), _shapes((batch,), "int32")
    return StepModel(adam(dense_loss), _with_adam(params), data, batch)


def transformer(
    layers: int = 1,
    batch: int = 8,
    length: int = 64,
    width: int = 256,
    heads: int = 8,
    hidden: int = 1024,
    vocabulary: int = 1024,
    has_adam: bool = False,
    is_scanned: bool = False,
) -> StepModel:
    head = width // heads
    block = {
        "ln1": (width,),
        **dict.fromkeys("qkv", (width, heads, head)),
        "o": (heads, head, width),
        "ln2": (width,),
        "up": (width, hidden),
        "down": (hidden, width),
    }
    blocks = {name: (layers, *shape) for name, shape in block.items()} if is_scanned else [block] * layers
    params = _shapes({"embed": (vocabulary, width), "blocks": blocks, "out": (width, vocabulary)})

    def normalize(x: jax.Array, scale: jax.Array) -> jax.Array:
        mean = jnp.mean(x, -1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(jnp.mean(jnp.square(x - mean), -1, keepdims=True) + 1e-5) * (1 + scale)

    def apply(b: Tree, x: jax.Array, mask: jax.Array) -> jax.Array:
        h = normalize(x, b["ln1"])
        q, k, v = (jnp.einsum("btd,dhe->bthe", h, b[name]) for name in "qkv")
        scores = jnp.einsum("bthe,bshe->bhts", q, k) / head**0.5
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
        x = x + jnp.einsum("bthe,hed->btd", jnp.einsum("bhts,bshe->bthe", weights, v), b["o"])
        return x + jax.nn.gelu(normalize(x, b["ln2"]) @ b["up"]) @ b["down"]

    def loss(params: Tree, data: Tree) -> jax.Array:
        tokens, targets = data
        x = params["embed"][tokens]
        mask = jnp.tril(jnp.ones((length, length), bool))
        if is_scanned:
            x, _ = jax.lax.scan(lambda x, b: (apply(b, x, mask), None), x, params["blocks"])
        else:
            for b in params["blocks"]:
                x = apply(b, x, mask)
        return cross_entropy(x @ params["out"], targets)

    tokens = _shapes((batch, length), "int32")
    if has_adam:
        return StepModel(adam(loss), _with_adam(params), (tokens, tokens), batch)
    return StepModel(descend(loss), params, (tokens, tokens), batch)


def lstm(
    batch: int = 64, width: int = 256, layers: int = 2, steps: int = 4, classes: int = 64, is_loop: bool = False
) -> StepModel:
    cell_shapes = {"x": (width, 4 * width), "h": (width, 4 * width), "b": (4 * width,)}
    params = _shapes({"cells": [cell_shapes] * layers, "out": (width, classes)})

    def loss(params: Tree, data: Tree) -> jax.Array:
        x, y = data
        zeros = jnp.zeros((batch, width))
        for p in params["cells"]:
            carry = zeros, zeros
            if is_loop:
                _, x = jax.lax.scan(lambda carry, one, p=p: lstm_cell(p, carry, one), carry, x)
            else:
                outs = []
                for t in range(steps):
                    carry, out = lstm_cell(p, carry, x[t])
                    outs.append(out)
                x = outs
        return cross_entropy(x[-1] @ params["out"], y)

    data = _shapes((steps, batch, width)), _shapes((batch,), "int32")
    return StepModel(descend(loss), params, data, batch)


def _normalize_channels(x: jax.Array, scale: jax.Array) -> jax.Array:
    mean = jnp.mean(x, (0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(jnp.mean(jnp.square(x - mean), (0, 1, 2)) + 1e-5) * (1 + scale)


def resnet(batch: int = 32, size: int = 16, widths: tuple[int, ...] = (32, 64), classes: int = 16) -> StepModel:
    before, blocks = widths[0], []
    for width in widths:
        block = {"a": (3, 3, before, width), "b": (3, 3, width, width), "s": (1, 1, before, width)}
        blocks.append({**block, "ga": (width,), "gb": (width,)})
        before = width
    params = _shapes({"stem": (3, 3, 8, widths[0]), "blocks": blocks, "out": (before, classes)})

    def loss(params: Tree, data: Tree) -> jax.Array:
        x, y = data
        x = convolve(x, params["stem"])
        for number, b in enumerate(params["blocks"]):
            stride = 1 + (number > 0)
            h = jax.nn.relu(_normalize_channels(convolve(x, b["a"], stride), b["ga"]))
            x = jax.nn.relu(_normalize_channels(convolve(h, b["b"]), b["gb"]) + convolve(x, b["s"], stride))
        return cross_entropy(jnp.mean(x, (1, 2)) @ params["out"], y)

    data = _shapes((batch, size, size, 8)), _shapes((batch,), "int32")
    return StepModel(descend(loss), params, data, batch)


def resnet_of_bottlenecks(
    batch: int = 256, size: int = 224, depths: tuple[int, ...] = (3, 4, 6, 3), classes: int = 1000
) -> StepModel:
    """Return ResNet-50 or a variant under Adam (He et al. 2016, with the stride in the 3x3 convolution)."""
    blocks, strides, before = [], [], 64
    for stage, depth in enumerate(depths):
        inner, outer = 64 * 2**stage, 256 * 2**stage
        for number in range(depth):
            block = {"a": (1, 1, before, inner), "b": (3, 3, inner, inner), "c": (1, 1, inner, outer)}
            block |= {"ga": (inner,), "gb": (inner,), "gc": (outer,)}
            if number == 0:
                block |= {"s": (1, 1, before, outer), "gs": (outer,)}
            blocks.append(block)
            strides.append(2 if number == 0 and stage > 0 else 1)
            before = outer
    params = _shapes({"stem": (7, 7, 3, 64), "gstem": (64,), "blocks": blocks, "out": (before, classes)})

    def loss(params: Tree, data: Tree) -> jax.Array:
        x, y = data
        x = jax.nn.relu(_normalize_channels(convolve(x, params["stem"], 2), params["gstem"]))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for b, stride in zip(params["blocks"], strides, strict=True):
            h = jax.nn.relu(_normalize_channels(convolve(x, b["a"]), b["ga"]))
            h = jax.nn.relu(_normalize_channels(convolve(h, b["b"], stride), b["gb"]))
            h = _normalize_channels(convolve(h, b["c"]), b["gc"])
            x = jax.nn.relu(h + (_normalize_channels(convolve(x, b["s"], stride), b["gs"]) if "s" in b else x))
        return cross_entropy(jnp.mean(x, (1, 2)) @ params["out"], y)

    data = _shapes((batch, size, size, 3)), _shapes((batch,), "int32")
    return StepModel(adam(loss), _with_adam(params), data, batch)


MODELS: Mapping[str, Callable[[], StepModel]] = {
    "MLP": mlp,
    "Transformer block": transformer,
    "LSTM 2x4": lstm,
    "LSTM 2x100, scan": lambda: lstm(steps=100, is_loop=True),
    "ResNet": resnet,
    "4-layer Transformer": lambda: transformer(4, 8, 128, 1024, 16, 4096, 8192),
}

# GPT-2 small and medium and ResNet-50, with the batches of one host and the usual padding of the vocabulary.
REAL_MODELS: Mapping[str, Callable[[], StepModel]] = {
    "12-layer Transformer": lambda: transformer(12, 32, 1024, 768, 12, 3072, 50304, has_adam=True),
    "24-layer Transformer": lambda: transformer(24, 32, 1024, 1024, 16, 4096, 50304, has_adam=True),
    "12 layers, scan": lambda: transformer(12, 32, 1024, 768, 12, 3072, 50304, has_adam=True, is_scanned=True),
    "ResNet-50": resnet_of_bottlenecks,
}
