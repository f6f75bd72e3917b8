"""Steps of JAX's own examples (github.com/jax-ml/jax)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.example_libraries import optimizers

from tests.campaigns.jax_examples_zoo.data import draw, draw_integers
from tests.campaigns.jax_examples_zoo.models import JaxExample, Made


def _stepping(loss: Callable[..., Any], params: Any, optimizer: Any, *others: Any) -> Made:
    """The step of these examples: an optimizer of `jax.example_libraries`, and how many steps there were."""
    start, update, read = optimizer

    def step(state: Any, *others: Any) -> Any:
        count, memory = state
        value, gradients = jax.value_and_grad(loss)(read(memory), *others)
        return (count + 1, update(count, gradients, memory)), value

    return step, ((jnp.array(0), start(params)), *others)


def _batch(*shape: int) -> tuple[Any, Any]:
    return draw(*shape), np.eye(10)[draw_integers(shape[0], below=10)]


def _stax(script: Any) -> Made:
    _, params = script.init_random_params(jax.random.key(0), (-1, 64))
    return _stepping(script.loss, params, optimizers.momentum(0.001, mass=0.9), _batch(8, 64))


def _from_scratch(script: Any) -> Made:
    params = script.init_random_params(0.1, [64, 32, 32, 10])

    def step(params: Any, batch: Any) -> Any:
        gradients = jax.grad(script.loss)(params, batch)
        return (jax.tree.map(lambda p, g: p - 0.001 * g, params, gradients),)

    return step, (params, _batch(8, 64))


def _private(script: Any) -> Made:
    start, update, read = optimizers.sgd(0.15)
    _, params = script.init_random_params(jax.random.key(0), (-1, 28, 28, 1))

    def step(state: Any, key: Any, batch: Any) -> Any:
        count, memory = state
        key = jax.random.fold_in(key, count)
        gradients = script.private_grad(read(memory), batch, key, 1.0, 1.1, 6)
        return ((count + 1, update(count, gradients, memory)),)

    batch = script.shape_as_image(*_batch(6, 784), dummy_dim=True)
    return step, ((jnp.array(0), start(params)), jax.random.key(1), batch)


def _vae(script: Any) -> Made:
    keys = jax.random.split(jax.random.key(0), 3)
    params = script.encoder_init(keys[0], (8, 784))[1], script.decoder_init(keys[1], (8, 10))[1]
    loss = lambda params, key, images: -script.elbo(key, params, jax.random.bernoulli(key, images)) / 8
    images = np.random.default_rng(0).uniform(size=(8, 784))
    return _stepping(loss, params, optimizers.momentum(0.001, mass=0.9), keys[2], images)


EXAMPLES = {
    "jax stax": JaxExample("jax/examples/mnist_classifier.py", _stax),
    "jax from scratch": JaxExample("jax/examples/mnist_classifier_fromscratch.py", _from_scratch, has_training=True),
    "jax private gradients": JaxExample("jax/examples/differentially_private_sgd.py", _private),
    "jax vae": JaxExample("jax/examples/mnist_vae.py", _vae),
}
