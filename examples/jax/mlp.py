"""Train a three-layer perceptron with Adam. It learns which of several points a vector was drawn around.

python examples/jax/mlp.py
python -m tofu plan examples/jax/mlp.py:step --workers 8
"""

import jax
import jax.numpy as jnp
from side_by_side import read_options, train_side_by_side

import tofu.jax

BATCH, WIDTH, CLASSES = 256, 512, 64


def make_state(key):
    """Return the parameters, their two moments for Adam, and the number of steps."""
    extents = [(WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH, CLASSES)]
    weights = [jax.random.normal(k, e) / e[0] ** 0.5 for k, e in zip(jax.random.split(key, 3), extents, strict=True)]
    params = [{"w": w, "b": jnp.zeros(w.shape[1])} for w in weights]
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"params": params, "mean": zeros, "square": zeros, "count": jnp.zeros(())}


def find_loss(params, batch):
    """Return the cross-entropy."""
    x, labels = batch
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    logits = x @ params[-1]["w"] + params[-1]["b"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def step(state, batch):
    """Run a training step. Return the next state and the loss."""
    loss, gradients = jax.value_and_grad(find_loss)(state["params"], batch)
    count = state["count"] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradients)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state["square"], gradients)
    rate = 1e-3 * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    params = jax.tree.map(lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-6), state["params"], mean, square)
    return {"params": params, "mean": mean, "square": square, "count": count}, loss


def draw_batch(key):
    """Return vectors, and for each the number of the point that it was drawn around."""
    one, two = jax.random.split(key)
    labels = jax.random.randint(one, (BATCH,), 0, CLASSES)
    points = jax.random.normal(jax.random.key(0), (CLASSES, WIDTH))
    return points[labels] + 2 * jax.random.normal(two, (BATCH, WIDTH)), labels


def example_args():
    """Return the shapes and types to plan for."""
    key = jax.random.key(0)
    return jax.eval_shape(make_state, key), jax.eval_shape(draw_batch, key)


def main():
    """Train on one device and on several."""
    options = read_options(__doc__, steps=20)
    parallel = tofu.jax.partition(step, options.workers, example_args())  # the only new line
    batches = map(draw_batch, jax.random.split(jax.random.key(1), options.steps))
    train_side_by_side(step, parallel, make_state(jax.random.key(2)), batches)


if __name__ == "__main__":
    main()
