"""Steps of flax.nnx's examples and tutorials (github.com/google/flax, examples/ and docs_nnx/)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optax
from flax import nnx

from tests.campaigns.jax_examples_zoo.data import draw
from tests.campaigns.jax_examples_zoo.models import JaxExample, Made


def functional(train: Callable[..., Any], objects: Any, *others: Any) -> Made:
    structure, state = nnx.split(objects)

    def step(state: Any, *others: Any) -> Any:
        objects = nnx.merge(structure, state)
        returned = train(*objects, *others)
        return nnx.split(objects)[1], returned

    return step, (state, *others)


def _lifted(script: Any) -> Made:
    model = script.MLP(din=1, dhidden=32, dout=1, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(1e-3), wrt=nnx.Param)
    return functional(script.train_step, (model, optimizer), (draw(16, 1), draw(16, 1, seed=1)))


def _vae(script: Any) -> Made:
    model = script.VAE(din=64, hidden_size=32, latent_size=8, output_shape=(8, 8), rngs=nnx.Rngs(0, noise=1))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    return functional(script.train_step, (model, optimizer), (draw(8, 8, 8) > 0).astype(float))


EXAMPLES = {
    "nnx lifted transforms": JaxExample(
        "flax/examples/nnx_toy_examples/02_lifted_transforms.py", _lifted, has_training=True
    ),
    "nnx vae": JaxExample("flax/examples/nnx_toy_examples/05_vae.py", _vae, has_training=True),
}
