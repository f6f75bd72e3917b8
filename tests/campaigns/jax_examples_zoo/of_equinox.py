"""Steps of equinox's examples (github.com/patrick-kidger/equinox, docs/examples)."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from tests.campaigns.jax_examples_zoo.data import draw, draw_integers, on_one_replica
from tests.campaigns.jax_examples_zoo.loading import first_call
from tests.campaigns.jax_examples_zoo.models import JaxExample, Made


class Loader(list):
    def __init__(self, *arrays: np.ndarray) -> None:
        super().__init__([tuple(_Tensor(array) for array in arrays)])


class _Tensor:
    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def numpy(self) -> np.ndarray:
        return self._array


def trained(model: Any, tx: Any) -> tuple[Any, Any]:
    return model, tx.init(eqx.filter(model, eqx.is_inexact_array))


def _mnist(notebook: Any) -> Made:
    loader = Loader(draw(8, 1, 28, 28), draw_integers(8, below=10))
    model = notebook.CNN(jax.random.key(0))
    train = lambda: notebook.train(model, loader, loader, optax.adamw(3e-4), 1, 1)
    step, (model, memory, x, y) = first_call(train, "make_step")
    return lambda state, x, y: _regroup(step(*state, x, y), 2), ((model, memory), x, y)


def _regroup(results: tuple[Any, ...], parts: int) -> tuple[Any, ...]:
    """The first results together, which are the state, then the others."""
    return (results[:parts], *results[parts:])


def _rnn(notebook: Any) -> Made:
    run = lambda: notebook.main(dataset_size=16, batch_size=8, steps=1)
    step, (model, x, y, memory) = first_call(run, "make_step")

    def train(state: Any, x: Any, y: Any) -> Any:
        loss, model, memory = step(state[0], x, y, state[1])
        return (model, memory), loss

    return train, ((model, memory), x, y)


def _frozen(notebook: Any) -> Made:
    step, (model, x, y, memory) = first_call(lambda: notebook.main(dataset_size=64, batch_size=16), "make_step")
    return lambda state, x, y: (step(state[0], x, y, state[1]),), ((model, memory), x, y)


def _stateful(notebook: Any) -> Made:
    model, norms = eqx.nn.make_with_state(notebook.Model)(jax.random.key(0))
    notebook.optim = optax.adam(3e-4)
    model, memory = trained(model, notebook.optim)
    step = lambda state, xs, ys: (notebook.make_step(*state, xs, ys),)
    return step, ((model, norms, memory), draw(12, 3), np.sin(draw(12, 3)) + 1)


def _bert(notebook: Any) -> Made:
    sizes = {
        "vocab_size": 48,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    config = {**notebook.bert_config, **sizes, "max_position_embeddings": 12}
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    model, memory = trained(notebook.BertClassifier(config=config, num_classes=2, key=jax.random.key(0)), tx)
    tokens, segments = draw_integers(4, 12, below=48), draw_integers(4, 12, below=2)
    inputs = {"token_ids": tokens, "segment_ids": segments, "label": draw_integers(4, below=2)}
    arrays, rest = eqx.partition((model, memory, jax.random.key(1)), eqx.is_array)

    def train(arrays: Any, inputs: Any) -> Any:
        model, memory, key = eqx.combine(arrays, rest)
        loss, *state = notebook.make_step(model, inputs, memory, key, tx)
        return eqx.filter(tuple(state), eqx.is_array), loss

    return on_one_replica(train, "devices"), (arrays, inputs)


def _vision_transformer(notebook: Any) -> Made:
    sizes = {
        "embedding_dim": 16,
        "hidden_dim": 24,
        "num_heads": 4,
        "num_layers": 2,
        "num_patches": 16,
        "num_classes": 10,
    }
    notebook.channels = 3
    model = notebook.VisionTransformer(**sizes, dropout_rate=0.1, patch_size=4, key=jax.random.key(0))
    tx = optax.adamw(1e-4, b1=0.9, b2=0.999)
    keys = jax.random.split(jax.random.key(1), 8)
    step = lambda state, x, y, keys: _regroup(notebook.step_model(state[0], tx, state[1], x, y, keys), 2)
    return step, (trained(model, tx), draw(8, 3, 16, 16), draw_integers(8, below=10), keys)


def _diffusion(notebook: Any) -> Made:
    key = jax.random.key(0)
    model = notebook.Mixer2d((1, 8, 8), 4, 12, 16, 16, 2, 10.0, key=key)
    return _score(notebook, model)


def _score(notebook: Any, model: Any) -> Made:
    tx = optax.adabelief(3e-4)
    model, memory = trained(model, tx)
    beta = lambda t: t
    weight = lambda t: 1 - jnp.exp(-beta(t))

    def step(state: Any, data: Any) -> Any:
        model, key, memory = state
        loss, *state = notebook.make_step(model, weight, beta, data, 10.0, key, memory, tx.update)
        return tuple(state), loss

    return step, ((model, jax.random.key(1), memory), draw(8, 1, 8, 8))


def _unet(notebook: Any) -> Made:
    sizes = {
        "hidden_size": 8,
        "heads": 2,
        "dim_head": 4,
        "num_res_blocks": 2,
        "dim_mults": [1, 2],
        "attn_resolutions": [4],
    }
    options = {"data_shape": (1, 8, 8), "is_biggan": False, "dropout_rate": 0.1, "key": jax.random.key(0)}
    tx = optax.adam(1e-3)

    def step(state: Any, x: Any, times: Any, keys: Any) -> Any:
        loss = lambda model: jnp.mean((jax.vmap(lambda t, x, key: model(t, x, key=key))(times, x, keys) - x) ** 2)
        value, gradients = eqx.filter_value_and_grad(loss)(state[0])
        updates, memory = tx.update(gradients, state[1])
        return (eqx.apply_updates(state[0], updates), memory), value

    state = trained(notebook.UNet(**sizes, **options), tx)
    return step, (state, draw(4, 1, 8, 8), np.abs(draw(4)), jax.random.split(jax.random.key(1), 4))


def _gan(notebook: Any) -> Made:
    notebook.batch_size, notebook.latent_size = 4, 12
    shape = (64, 4, 1)  # height; the example's width is also the number of channels
    notebook.height, notebook.width, notebook.channels = shape
    keys = jax.random.split(jax.random.key(0), 3)
    (generator, g_norms), (discriminator, d_norms) = (
        eqx.nn.make_with_state(notebook.Generator)(input_shape=12, output_shape=shape, key=keys[0]),
        eqx.nn.make_with_state(notebook.Discriminator)(input_shape=shape, key=keys[1]),
    )
    tx = optax.adam(2e-4, b1=0.5, b2=0.999)

    def step(state: Any, images: Any) -> Any:
        (g, g_memory, g_norms), (d, d_memory, d_norms), key = state
        d_loss, d, d_memory, g_norms, d_norms, key = notebook.step_discriminator(
            d, g, images, tx, d_memory, g_norms, d_norms, key
        )
        g_loss, g, g_memory, d_norms, g_norms, key = notebook.step_generator(g, d, tx, g_memory, d_norms, g_norms, key)
        return ((g, g_memory, g_norms), (d, d_memory, d_norms), key), (d_loss, g_loss)

    state = (*trained(generator, tx), g_norms), (*trained(discriminator, tx), d_norms), keys[2]
    return step, (state, draw(4, 1, 64, 64))


def _neural_ode(notebook: Any, adjoint: str = "RecursiveCheckpointAdjoint") -> Made:
    import diffrax

    model = notebook.Mixer2d((1, 8, 8), 4, 8, 8, 8, 1, 1.0, key=jax.random.key(0))
    tx = optax.adam(1e-3)

    def step(state: Any, x: Any) -> Any:
        def loss(model: Any) -> Any:
            term, solver = diffrax.ODETerm(lambda t, y, args: jnp.tanh(model(t, y))), diffrax.Tsit5()
            options = {"stepsize_controller": diffrax.ConstantStepSize(), "adjoint": getattr(diffrax, adjoint)()}
            solve = lambda y: diffrax.diffeqsolve(term, solver, 0.0, 1.0, 0.25, y, max_steps=8, **options).ys[0]
            return jnp.mean((jax.vmap(solve)(x) - 1) ** 2)

        value, gradients = eqx.filter_value_and_grad(loss)(state[0])
        updates, memory = tx.update(gradients, state[1])
        return (eqx.apply_updates(state[0], updates), memory), value

    return step, (trained(model, tx), draw(8, 1, 8, 8))


FOLDER = "equinox/docs/examples"
EXAMPLES = {
    "equinox mnist": JaxExample(f"{FOLDER}/mnist.ipynb", _mnist),
    "equinox rnn": JaxExample(f"{FOLDER}/train_rnn.ipynb", _rnn),
    "equinox frozen layer": JaxExample(f"{FOLDER}/frozen_layer.ipynb", _frozen),
    "equinox stateful": JaxExample(f"{FOLDER}/stateful.ipynb", _stateful),
    "equinox bert": JaxExample(f"{FOLDER}/bert.ipynb", _bert),
    "equinox vision transformer": JaxExample(f"{FOLDER}/vision_transformer.ipynb", _vision_transformer),
    "equinox diffusion": JaxExample(f"{FOLDER}/score_based_diffusion.ipynb", _diffusion),
    "equinox unet": JaxExample(f"{FOLDER}/unet.ipynb", _unet),
    "equinox gan": JaxExample(f"{FOLDER}/deep_convolutional_gan.ipynb", _gan),
    "equinox neural ode, diffrax": JaxExample(f"{FOLDER}/score_based_diffusion.ipynb", _neural_ode),
    "equinox neural ode, diffrax's direct adjoint": JaxExample(
        f"{FOLDER}/score_based_diffusion.ipynb", partial(_neural_ode, adjoint="DirectAdjoint")
    ),
}
