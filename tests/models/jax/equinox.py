from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax


def draw(*shape):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape))


def _train(module, find_loss, tx, *others):

    @eqx.filter_jit
    def step(state, *others):
        module, memory = state
        loss, gradients = eqx.filter_value_and_grad(find_loss)(module, *others)
        updates, memory = tx.update(gradients, memory, eqx.filter(module, eqx.is_inexact_array))
        return (eqx.apply_updates(module, updates), memory), loss

    return step, (module, tx.init(eqx.filter(module, eqx.is_inexact_array))), others


def perceptron():
    one, two = jax.random.split(jax.random.key(0))
    module = eqx.nn.Sequential(
        [
            eqx.nn.MLP(32, 64, 64, 2, activation=jax.nn.gelu, key=one, dtype=jnp.float64),
            eqx.nn.LayerNorm(64, dtype=jnp.float64),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Dropout(0.1),
            eqx.nn.Linear(64, 16, key=two, dtype=jnp.float64),
        ]
    )

    def find_loss(module, x, y, key):
        keys = jax.random.split(key, len(x))
        return jnp.mean((jax.vmap(lambda x, key: module(x, key=key))(x, keys) - y) ** 2)

    return _train(module, find_loss, optax.adam(1e-2, eps=1e-6), draw(16, 32), draw(16, 16), jax.random.key(5))


class Attending(eqx.Module):
    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    convolution: eqx.nn.Conv1d

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(4, 32, key=one, dtype=jnp.float64)
        self.norm = eqx.nn.LayerNorm(32, dtype=jnp.float64)
        self.convolution = eqx.nn.Conv1d(32, 32, 3, padding=1, key=two, dtype=jnp.float64)

    def __call__(self, x):
        h = jax.vmap(self.norm)(x)
        x = x + self.attention(h, h, h, mask=jnp.tril(jnp.ones((len(x), len(x)), bool)))
        return x + self.convolution(x.T).T


def attending():
    find_loss = lambda module, x, y: jnp.mean((jax.vmap(module)(x) - y) ** 2)  # noqa: E731
    return _train(Attending(jax.random.key(0)), find_loss, optax.lion(1e-3), draw(8, 16, 32), draw(8, 16, 32) / 2)


class Normalized(eqx.Module):
    norm: eqx.nn.BatchNorm
    last: eqx.nn.Linear

    def __call__(self, x, state):
        x, state = self.norm(x, state)
        return self.last(jax.nn.relu(x)), state


def normalized():
    module, statistics = eqx.nn.make_with_state(
        lambda: Normalized(
            eqx.nn.BatchNorm(32, axis_name="batch", mode="batch", dtype=jnp.float64),
            eqx.nn.Linear(32, 16, key=jax.random.key(0), dtype=jnp.float64),
        )
    )()
    tx = optax.sgd(1e-2)

    @eqx.filter_jit
    def step(state, x, y):
        module, statistics, memory = state

        def find_loss(module):
            run = jax.vmap(module, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
            out, after = run(x, statistics)
            return jnp.mean((out - y) ** 2), after

        (loss, statistics), gradients = eqx.filter_value_and_grad(find_loss, has_aux=True)(module)
        updates, memory = tx.update(gradients, memory)
        return (eqx.apply_updates(module, updates), statistics, memory), loss

    state = module, statistics, tx.init(eqx.filter(module, eqx.is_inexact_array))
    return step, state, (draw(64, 32), draw(64, 16))


MODELS = {model.__name__: model for model in (perceptron, attending, normalized)}
