"""Training steps of flax.nnx, over the result of `nnx.split`."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from tests.models.jax.linen import cross_entropy, draw, draw_labels

# Since flax 0.11, the optimizer with a model is another class, and merging only copies on request.
ModelAndOptimizer = getattr(nnx, "ModelAndOptimizer", nnx.Optimizer)
merge_copy = partial(nnx.merge, copy=True) if hasattr(nnx, "ModelAndOptimizer") else nnx.merge
F64 = {"dtype": jnp.float64, "param_dtype": jnp.float64}


class Perceptron(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(32, 64, rngs=rngs, **F64)
        self.norm = nnx.BatchNorm(64, rngs=rngs, **F64)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)
        self.last = nnx.Linear(64, 16, rngs=rngs, **F64)

    def __call__(self, x):
        return self.last(self.dropout(nnx.relu(self.norm(self.first(x)))))


def perceptron():
    model = Perceptron(nnx.Rngs(0))
    graph, state = nnx.split((model, ModelAndOptimizer(model, optax.adam(1e-2, eps=1e-6))))
    state = jax.tree.map(lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x, state)  # moving statistics

    def step(state, batch):
        x, labels = batch
        model, optimizer = nnx.merge(graph, state)
        model.train()
        loss, gradients = nnx.value_and_grad(lambda model: cross_entropy(model(x), labels))(model)
        optimizer.update(gradients)
        return nnx.state((model, optimizer)), loss

    return step, state, ((draw(16, 32), draw_labels(16)),)


class NnxBlock(nnx.Module):
    def __init__(self, rngs):
        self.attention_norm = nnx.LayerNorm(32, rngs=rngs, **F64)
        self.attention = nnx.MultiHeadAttention(
            4, 32, dropout_rate=0.1, deterministic=False, decode=False, rngs=rngs, **F64
        )
        self.norm = nnx.RMSNorm(32, rngs=rngs, **F64)
        self.up, self.down = nnx.Linear(32, 128, rngs=rngs, **F64), nnx.Linear(128, 32, rngs=rngs, **F64)

    def __call__(self, x):
        x = x + self.attention(self.attention_norm(x), mask=nnx.make_causal_mask(jnp.ones(x.shape[:2])))
        return x + self.down(nnx.gelu(self.up(self.norm(x))))


class NnxLanguageModel(nnx.Module):
    def __init__(self, rngs):
        self.embed, self.block = nnx.Embed(64, 32, rngs=rngs, **F64), NnxBlock(rngs)
        self.last = nnx.Linear(32, 64, rngs=rngs, **F64)

    def __call__(self, tokens):
        return self.last(self.block(self.embed(tokens)))


def transformer():
    graph, params, rest = nnx.split(NnxLanguageModel(nnx.Rngs(0, dropout=1)), nnx.Param, ...)
    tx = optax.adamw(1e-2, eps=1e-6)

    def step(state, tokens):
        params, rest, memory = state

        def find_loss(params):
            model = merge_copy(graph, params, rest)
            loss = cross_entropy(model(tokens[:, :-1]), tokens[:, 1:])
            return loss, nnx.split(model, nnx.Param, ...)[2]

        (loss, rest), gradients = jax.value_and_grad(find_loss, has_aux=True)(params)
        updates, memory = tx.update(gradients, memory, params)
        return (optax.apply_updates(params, updates), rest, memory), loss

    return step, (params, rest, tx.init(params)), (draw_labels(8, 17, classes=64),)


MODELS = {model.__name__: model for model in (perceptron, transformer)}
