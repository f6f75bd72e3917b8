"""Training steps of flax.linen: () -> (step, state, other arguments)."""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import dynamic_scale, train_state

F64 = {"dtype": jnp.float64, "param_dtype": jnp.float64}


def draw(*shape):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape))


def draw_labels(*shape, classes=16):
    return jnp.asarray(np.random.default_rng(1).integers(0, classes, shape))


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def train(find_loss, tx):
    def step(state, batch):
        params, memory = state
        loss, gradients = jax.value_and_grad(find_loss)(params, batch)
        updates, memory = tx.update(gradients, memory, params)
        return (optax.apply_updates(params, updates), memory), loss

    return step


class Block(nn.Module):
    width: int = 32

    @nn.compact
    def __call__(self, x, train, mask=None):
        dropout = partial(nn.Dropout, 0.1, deterministic=not train)
        attend = nn.MultiHeadDotProductAttention(4, dropout_rate=0.1, deterministic=not train, **F64)
        h = nn.LayerNorm(**F64)(x)
        x = x + dropout()(attend(h, h, mask=mask))
        h = nn.gelu(nn.Dense(4 * self.width, **F64)(nn.LayerNorm(**F64)(x)))
        return x + dropout()(nn.Dense(self.width, **F64)(h))


class LanguageModel(nn.Module):
    vocabulary: int = 64
    width: int = 32

    @nn.compact
    def __call__(self, tokens, train=True):
        embed = nn.Embed(self.vocabulary, self.width, **F64)
        places = self.param("places", nn.initializers.normal(0.02), (tokens.shape[1], self.width), jnp.float64)
        x = nn.Dropout(0.1, deterministic=not train)(embed(tokens) + places)
        x = Block(self.width)(x, train, nn.make_causal_mask(tokens))
        return embed.attend(nn.LayerNorm(**F64)(x))


def schedule_adamw():
    rate = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 2, 10)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, eps=1e-6, weight_decay=0.1))


def make_state(model, *inputs, tx):
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    return train_state.TrainState.create(apply_fn=model.apply, params=model.init(keys, *inputs)["params"], tx=tx)


def transformer():
    tokens = draw_labels(8, 17, classes=64)
    state = make_state(LanguageModel(), tokens[:, :-1], tx=schedule_adamw())

    def step(state, tokens, key):
        dropout = jax.random.fold_in(key, state.step)

        def find_loss(params):
            logits = state.apply_fn({"params": params}, tokens[:, :-1], rngs={"dropout": dropout})
            return cross_entropy(logits, tokens[:, 1:])

        loss, gradients = jax.value_and_grad(find_loss)(state.params)
        return state.apply_gradients(grads=gradients), {"loss": loss, "norm": optax.tree.norm(gradients)}

    return step, state, (tokens, jax.random.PRNGKey(7))


class Residual(nn.Module):
    channels: int
    stride: int = 1

    @nn.compact
    def __call__(self, x, train):
        convolve = partial(nn.Conv, use_bias=False, **F64)
        norm = partial(nn.BatchNorm, use_running_average=not train, momentum=0.9, **F64)
        y = nn.relu(norm()(convolve(self.channels, (3, 3), (self.stride, self.stride))(x)))
        y = norm()(convolve(self.channels, (3, 3))(y))
        if x.shape != y.shape:
            x = norm()(convolve(self.channels, (1, 1), (self.stride, self.stride))(x))
        return nn.relu(x + y)


class ResNet(nn.Module):
    @nn.compact
    def __call__(self, x, train=True):
        x = nn.relu(nn.BatchNorm(use_running_average=not train, **F64)(nn.Conv(16, (3, 3), use_bias=False, **F64)(x)))
        x = Residual(32, 2)(nn.max_pool(x, (3, 3), strides=(2, 2), padding="SAME"), train)
        return nn.Dense(16, **F64)(x.mean((1, 2)))


class StateWithStatistics(train_state.TrainState):
    batch_stats: Any


def resnet():
    model, images = ResNet(), draw(16, 16, 16, 3)
    variables = jax.tree.map(lambda x: x.astype(jnp.float64), model.init(jax.random.key(0), images))
    state = StateWithStatistics.create(
        apply_fn=model.apply, tx=optax.sgd(0.05, momentum=0.9, nesterov=True), **variables
    )

    def step(state, batch):
        images, labels = batch

        def find_loss(params):
            variables = {"params": params, "batch_stats": state.batch_stats}
            logits, updates = state.apply_fn(variables, images, mutable=["batch_stats"])
            return cross_entropy(logits, labels), updates

        (loss, updates), gradients = jax.value_and_grad(find_loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=gradients, **updates), loss

    return step, state, ((images, draw_labels(16)),)


class Recurrent(nn.Module):
    @nn.compact
    def __call__(self, x):
        cell = partial(nn.GRUCell, 16, **F64)
        x = nn.RNN(nn.OptimizedLSTMCell(32, **F64))(x)
        return nn.Dense(16, **F64)(nn.Bidirectional(nn.RNN(cell()), nn.RNN(cell()))(x)[:, -1])


def _train_linen(model, x, tx):
    params = model.init(jax.random.key(0), x)
    step = train(lambda params, batch: cross_entropy(model.apply(params, batch[0]), batch[1]), tx)
    return step, (params, tx.init(params)), ((x, draw_labels(len(x))),)


def recurrent():
    return _train_linen(Recurrent(), draw(8, 6, 16), optax.rmsprop(1e-2))


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        h = nn.silu(nn.Dense(64, **F64)(nn.LayerNorm(**F64)(x)))
        return x + nn.Dense(32, **F64)(h), None


class Stacked(nn.Module):
    @nn.compact
    def __call__(self, x):
        stack = nn.scan(nn.remat(Layer), variable_axes={"params": 0}, split_rngs={"params": True}, length=4)
        return nn.Dense(16, **F64)(stack()(x, None)[0])


def stacked():
    return _train_linen(Stacked(), draw(16, 32), optax.adamw(1e-2, eps=1e-6))


def _draw_layers():
    return [{"w": draw(32, 64) / 6, "b": jnp.zeros(64)}, {"w": draw(64, 16) / 8, "b": jnp.zeros(16)}]


def _run_layers(params, x):
    return jnp.tanh(x @ params[0]["w"] + params[0]["b"]) @ params[1]["w"] + params[1]["b"]


def _find_loss(params, batch):
    return cross_entropy(_run_layers(params, batch[0]), batch[1])


def accumulated():
    params, tx = _draw_layers(), optax.adam(1e-2)

    def step(state, batch):
        params, memory = state

        def add(total, part):
            return jax.tree.map(jnp.add, total, jax.value_and_grad(_find_loss)(params, part)), None

        (loss, gradients), _ = jax.lax.scan(add, (0.0, jax.tree.map(jnp.zeros_like, params)), batch)
        updates, memory = tx.update(jax.tree.map(lambda g: g / 4, gradients), memory, params)
        return (optax.apply_updates(params, updates), memory), loss / 4

    return step, (params, tx.init(params)), ((draw(4, 8, 32), draw_labels(4, 8)),)


def optimized(tx):
    tx, params = optax.with_extra_args_support(tx), _draw_layers()

    def step(state, batch):
        params, memory = state
        value_fn = partial(_find_loss, batch=batch)
        loss, gradients = jax.value_and_grad(value_fn)(params)
        updates, memory = tx.update(gradients, memory, params, value=loss, grad=gradients, value_fn=value_fn)
        return (optax.apply_updates(params, updates), memory), loss

    return step, (params, tx.init(params)), ((draw(16, 32), draw_labels(16)),)


def scaled():
    params, tx = _draw_layers(), optax.adam(1e-2)

    def step(state, batch):
        params, memory, scale = state
        scale, is_finite, loss, gradients = scale.value_and_grad(_find_loss)(params, batch)
        updates, after = tx.update(gradients, memory, params)
        keep = partial(jax.tree.map, partial(jnp.where, is_finite))
        return (keep(optax.apply_updates(params, updates), params), keep(after, memory), scale), loss

    state = params, tx.init(params), dynamic_scale.DynamicScale(growth_interval=2, scale=jnp.float32(2**16))
    return step, state, ((draw(16, 32), draw_labels(16)),)


MODELS = {model.__name__: model for model in (transformer, resnet, recurrent, stacked, accumulated, scaled)}
