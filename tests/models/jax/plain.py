"""Small training steps in plain JAX: type -> (step, state, data). Extents suit 8 workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def descend(loss):

    def step(params, data):
        value, gradients = jax.value_and_grad(loss)(params, data)
        return jax.tree.map(lambda p, g: p - 0.05 * g, params, gradients), value

    return step


def adam(loss):
    """Return a step of Adam on a loss of (params, data). The state is (params, first moments, second moments, count)."""

    def step(state, data):
        params, mean, square, count = state
        value, gradients = jax.value_and_grad(loss)(params, data)
        count = count + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradients)
        square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, gradients)
        rate = 0.01 * jnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
        params = jax.tree.map(lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8), params, mean, square)
        return (params, mean, square, count), value

    return step


def draw(shapes, dtype, seed=0):
    rng = np.random.default_rng(seed)
    leaves, tree = jax.tree.flatten(shapes, is_leaf=lambda x: isinstance(x, tuple))
    return jax.tree.unflatten(tree, [jnp.asarray(rng.normal(size=x) / 4, dtype) for x in leaves])


def cross_entropy(logits, labels):
    return -jnp.mean(
        jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype), -1)
    )


def dense_loss(params, data):
    x, y = data
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return cross_entropy(x @ params[-1]["w"] + params[-1]["b"], y)


def perceptron(dtype):
    params = draw([{"w": (160, 160), "b": (160,)} for _ in range(2)] + [{"w": (160, 24), "b": (24,)}], dtype)
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)  # noqa: E731
    data = draw((48, 160), dtype, 1), jnp.arange(48) % 24
    return adam(dense_loss), (params, zeros(), zeros(), jnp.asarray(0, dtype)), data


def attention(dtype):
    width, heads, vocabulary = 48, 4, 96
    params = draw(
        {
            "embed": (vocabulary, width),
            **dict.fromkeys("qkv", (width, heads, width // heads)),
            "o": (heads, width // heads, width),
            "up": (width, 4 * width),
            "down": (4 * width, width),
        },
        dtype,
    )

    def norm(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    @jax.checkpoint
    def block(params, x):
        h = norm(x)
        q, k, v = (jnp.einsum("btd,dhe->bthe", h, params[name]) for name in "qkv")
        scores = jnp.einsum("bthe,bshe->bhts", q, k) / np.sqrt(width // heads)
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
        x = x + jnp.einsum("bhts,bshe,hed->btd", weights, v, params["o"])
        return x + jax.nn.gelu(norm(x) @ params["up"]) @ params["down"]

    def loss(params, data):
        tokens, key = data
        x = block(params, params["embed"][tokens[:, :-1]])
        kept = jax.random.uniform(key, x.shape, jnp.float32) < 0.8
        return cross_entropy((x * kept) @ params["embed"].T, tokens[:, 1:])

    tokens = jnp.asarray(np.random.default_rng(2).integers(0, vocabulary, (24, 17)))
    return descend(loss), params, (tokens, jax.random.key(3))


def lstm_cell(params, carry, x):
    h, c = carry
    i, f, g, o = jnp.split(x @ params["x"] + h @ params["h"] + params["b"], 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def recurrence(dtype):
    width, steps = 48, 5
    params = draw({"x": (width, 4 * width), "h": (width, 4 * width), "b": (4 * width,), "out": (width, 24)}, dtype)

    def loss(params, data):
        x, y = data
        zero = jnp.zeros((x.shape[1], width), x.dtype)
        for reverse in (False, True):
            _, x = jax.lax.scan(lambda carry, x: lstm_cell(params, carry, x), (zero, zero), x, reverse=reverse)
        return cross_entropy(x.mean(0) @ params["out"], y)

    return descend(loss), params, (draw((steps, 24, width), dtype, 1), jnp.arange(24) % 24)


def convolve(x, w, stride=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def convolutions(dtype):
    params = draw({"first": (3, 3, 8, 16), "second": (3, 3, 16, 16), "scale": (16,), "out": (16, 24)}, dtype)

    def loss(params, data):
        x, y = data
        x = jax.nn.relu(convolve(x, params["first"]))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
        h = convolve(x, params["second"], 2)
        centred = h - h.mean((0, 1, 2))
        h = centred * jax.lax.rsqrt((centred**2).mean((0, 1, 2)) + 1e-5) * (1 + params["scale"])
        return cross_entropy(jax.nn.relu(h).mean((1, 2)) @ params["out"], y)

    return descend(loss), params, (draw((24, 16, 16, 8), dtype, 1), jnp.arange(24) % 24)


STEPS: Mapping[str, Callable[[str], Any]] = {
    step.__name__: step for step in (perceptron, attention, recurrence, convolutions)
}
