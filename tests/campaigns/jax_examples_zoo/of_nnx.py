"""Steps of flax.nnx's examples and tutorials (github.com/google/flax, examples/ and docs_nnx/)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import optax
from flax import nnx

from tests.campaigns.jax_examples_zoo.data import draw, draw_integers
from tests.campaigns.jax_examples_zoo.models import JaxExample, Made


def functional(train: Callable[..., Any], objects: Any, *others: Any) -> Made:
    structure, state = nnx.split(objects)

    def step(state: Any, *others: Any) -> Any:
        objects = nnx.merge(structure, state)
        returned = train(*objects, *others)
        return nnx.split(objects)[1], returned

    return step, (state, *others)


def _mnist(script: Any, tx: Any, takes_keys_last: bool) -> Made:
    model = script.CNN(rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
    metrics = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))
    batch = {"image": draw(8, 28, 28, 1), "label": draw_integers(8, below=10)}

    def train(model: Any, optimizer: Any, metrics: Any, keys: Any, batch: Any) -> Any:
        return script.train_step(model, optimizer, metrics, *((batch, keys) if takes_keys_last else (keys, batch)))

    return functional(train, (model, optimizer, metrics, nnx.Rngs(0)), batch)


def _lifted(script: Any) -> Made:
    model = script.MLP(din=1, dhidden=32, dout=1, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(1e-3), wrt=nnx.Param)
    return functional(script.train_step, (model, optimizer), (draw(16, 1), draw(16, 1, seed=1)))


def _vae(script: Any) -> Made:
    model = script.VAE(din=64, hidden_size=32, latent_size=8, output_shape=(8, 8), rngs=nnx.Rngs(0, noise=1))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    return functional(script.train_step, (model, optimizer), (draw(8, 8, 8) > 0).astype(float))


def _scan_over_layers(script: Any) -> Made:
    model = script.ScanMLP(12, n_layers=3, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

    def train(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        loss, gradients = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
        optimizer.update(model, gradients)
        return loss

    return functional(train, (model, optimizer), draw(8, 12), draw(8, 12, seed=1))


def _own_optimizer(script: Any) -> Made:
    model = script.MLP(4, 32, 4, rngs=nnx.Rngs(0))
    optimizer = script.SGD(nnx.variables(model, nnx.Param), 0.01, decay=0.9)
    return functional(script.train_step, (model, optimizer), draw(16, 4), draw(16, 4, seed=1))


EXAMPLES = {
    "nnx mnist": JaxExample(
        "flax/examples/mnist/train.py", partial(_mnist, tx=optax.sgd(0.1, 0.9), takes_keys_last=True)
    ),
    "nnx mnist tutorial": JaxExample(
        "flax/docs_nnx/mnist_tutorial.ipynb", partial(_mnist, tx=optax.adamw(0.005, 0.9), takes_keys_last=False)
    ),
    "nnx lifted transforms": JaxExample(
        "flax/examples/nnx_toy_examples/02_lifted_transforms.py", _lifted, has_training=True
    ),
    "nnx vae": JaxExample("flax/examples/nnx_toy_examples/05_vae.py", _vae, has_training=True),
    "nnx scan over layers": JaxExample(
        "flax/examples/nnx_toy_examples/06_scan_over_layers.py", _scan_over_layers, has_training=True
    ),
    "nnx own optimizer": JaxExample(
        "flax/examples/nnx_toy_examples/10_fsdp_and_optimizer.py", _own_optimizer, has_training=True
    ),
}
