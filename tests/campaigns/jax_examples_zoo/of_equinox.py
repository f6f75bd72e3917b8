"""Steps of equinox's examples (github.com/patrick-kidger/equinox, docs/examples)."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from tests.campaigns.jax_examples_zoo.data import draw, draw_integers
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

    def train_state(state: Any, x: Any, y: Any) -> Any:
        model, memory, *results = step(*state, x, y)
        return (model, memory), *results

    return train_state, ((model, memory), x, y)


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


def _diffusion(notebook: Any) -> Made:
    model = notebook.Mixer2d((1, 8, 8), 4, 12, 16, 16, 2, 10.0, key=jax.random.key(0))
    tx = optax.adabelief(3e-4)
    model, memory = trained(model, tx)
    beta = lambda t: t
    weight = lambda t: 1 - jnp.exp(-beta(t))

    def step(state: Any, data: Any) -> Any:
        model, key, memory = state
        loss, *state = notebook.make_step(model, weight, beta, data, 10.0, key, memory, tx.update)
        return tuple(state), loss

    return step, ((model, jax.random.key(1), memory), draw(8, 1, 8, 8))


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
    "equinox diffusion": JaxExample(f"{FOLDER}/score_based_diffusion.ipynb", _diffusion),
    "equinox neural ode, diffrax": JaxExample(f"{FOLDER}/score_based_diffusion.ipynb", _neural_ode),
    "equinox neural ode, diffrax's direct adjoint": JaxExample(
        f"{FOLDER}/score_based_diffusion.ipynb", partial(_neural_ode, adjoint="DirectAdjoint")
    ),
}
