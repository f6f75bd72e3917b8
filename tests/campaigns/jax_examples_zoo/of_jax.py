"""Steps of JAX's own examples and of vision_transformer (github.com/jax-ml/jax, github.com/google-research/vision_transformer)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
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


def _advi(script: Any) -> Made:
    loss = lambda params, key: -script.batch_elbo(script.funnel_log_density, key, params, 40)
    return _stepping(
        loss, (jnp.zeros(2), jnp.zeros(2)), optimizers.momentum(step_size=0.1, mass=0.9), jax.random.key(0)
    )


def _vision(script: Any, model: str = "VisionTransformer", momentum: str | None = "bfloat16", **options: Any) -> Made:
    """Return a step with momentum in half precision, or in float32 if the model computes in float32."""
    network = getattr(script, model)(num_classes=10, **options)
    images, labels = draw(8, 16, 16, 3), draw_integers(8, below=10)
    params = network.init(jax.random.key(0), images, train=False)["params"]
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9, accumulator_dtype=momentum))

    def step(state: Any, images: Any, labels: Any, key: Any) -> Any:
        def loss(params: Any) -> Any:
            logits = network.apply({"params": params}, images, train=True, rngs={"dropout": key})
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        value, gradients = jax.value_and_grad(loss)(state[0])
        updates, memory = tx.update(gradients, state[1])
        return (optax.apply_updates(state[0], updates), memory), value

    return step, ((params, tx.init(params)), images, labels, jax.random.key(1))


def _patches(size: int) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(size=(size, size))


TRANSFORMER = {"num_layers": 2, "mlp_dim": 24, "num_heads": 4, "dropout_rate": 0.1}
EXAMPLES = {
    "jax stax": JaxExample("jax/examples/mnist_classifier.py", _stax),
    "jax from scratch": JaxExample("jax/examples/mnist_classifier_fromscratch.py", _from_scratch, has_training=True),
    "jax private gradients": JaxExample("jax/examples/differentially_private_sgd.py", _private),
    "jax vae": JaxExample("jax/examples/mnist_vae.py", _vae),
    "jax advi": JaxExample("jax/examples/advi.py", _advi, has_training=True),
    "vision transformer": JaxExample(
        "vit/vit_jax/models_vit.py",
        partial(_vision, momentum=None, patches=_patches(4), transformer=TRANSFORMER, hidden_size=16),
        dtype="float32",
    ),
    "vision mixer": JaxExample(
        "vit/vit_jax/models_mixer.py",
        partial(
            _vision,
            model="MlpMixer",
            patches=_patches(4),
            num_blocks=2,
            hidden_dim=12,
            tokens_mlp_dim=8,
            channels_mlp_dim=24,
        ),
    ),
}
