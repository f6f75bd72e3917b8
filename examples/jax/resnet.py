"""Train a residual network with batch normalization to distinguish eight kinds of stripes.

python examples/jax/resnet.py
python -m tofu plan examples/jax/resnet.py:step --workers 8
"""

import jax
import jax.numpy as jnp
from side_by_side import read_options, train_side_by_side

import tofu.jax

BATCH, SIZE, CLASSES = 32, 32, 8
WIDTHS = (16, 32, 64)
MOMENTUM, RATE = 0.9, 0.02


def make_state(key):
    """Return the parameters, their momentum, and the moving averages of batch normalization."""
    keys = iter(jax.random.split(key, 2 + 3 * len(WIDTHS)))

    def convolution(size, before, after):
        return jax.random.normal(next(keys), (size, size, before, after)) * (2 / (size * size * before)) ** 0.5

    params = {"stem": convolution(3, 1, WIDTHS[0]), "blocks": []}
    before, averages = WIDTHS[0], []
    for width in WIDTHS:
        params["blocks"].append(
            {
                "first": convolution(3, before, width),
                "second": convolution(3, width, width),
                "skip": convolution(1, before, width),
                "scale": jnp.ones((2, width)),
                "shift": jnp.zeros((2, width)),
            }
        )
        averages.append({"mean": jnp.zeros((2, width)), "variance": jnp.ones((2, width))})
        before = width
    params["out"] = jax.random.normal(next(keys), (before, CLASSES)) / before**0.5
    return {"params": params, "momentum": jax.tree.map(jnp.zeros_like, params), "averages": averages}


def convolve(x, kernel, stride=1):
    """Convolve images with "SAME" padding."""
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def normalize(x, scale, shift):
    """Normalize over the batch. Return the result, and the mean and variance of the batch."""
    mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift, mean, variance


def run_block(block, x, stride):
    """Run two convolutions with a skip connection. Return the result and the statistics of the batch."""
    h, *first = normalize(convolve(x, block["first"], stride), block["scale"][0], block["shift"][0])
    h, *second = normalize(convolve(jax.nn.relu(h), block["second"]), block["scale"][1], block["shift"][1])
    mean, variance = map(jnp.stack, zip(first, second, strict=True))
    return jax.nn.relu(h + convolve(x, block["skip"], stride)), {"mean": mean, "variance": variance}


def find_loss(params, batch):
    """Return the cross-entropy, and the statistics of every block."""
    images, labels = batch
    x, statistics = jax.nn.relu(convolve(images, params["stem"])), []
    for number, block in enumerate(params["blocks"]):
        with jax.named_scope(f"block_{number}"):
            x, found = run_block(block, x, 1 + (number > 0))
        statistics.append(found)
    logits = jnp.mean(x, (1, 2)) @ params["out"]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, CLASSES), 1)), statistics


def step(state, batch):
    """Run a training step. Return the next state and the loss."""
    (loss, found), gradients = jax.value_and_grad(find_loss, has_aux=True)(state["params"], batch)
    momentum = jax.tree.map(lambda m, g: MOMENTUM * m + g, state["momentum"], gradients)
    params = jax.tree.map(lambda p, m: p - RATE * m, state["params"], momentum)
    averages = jax.tree.map(lambda a, s: 0.9 * a + 0.1 * s, state["averages"], found)
    return {"params": params, "momentum": momentum, "averages": averages}, loss


def draw_batch(key):
    """Return noisy stripes, and the number of their direction."""
    one, two, three = jax.random.split(key, 3)
    labels = jax.random.randint(one, (BATCH,), 0, CLASSES)
    angle = (labels * jnp.pi / CLASSES)[:, None, None]
    y, x = jnp.mgrid[:SIZE, :SIZE] * 1.0
    phase = jax.random.uniform(two, (BATCH, 1, 1)) * 2 * jnp.pi
    stripes = jnp.sin(x * jnp.cos(angle) + y * jnp.sin(angle) + phase)
    return (stripes + 0.5 * jax.random.normal(three, stripes.shape))[..., None], labels


def example_args():
    """Return the shapes and types to plan for."""
    key = jax.random.key(0)
    return jax.eval_shape(make_state, key), jax.eval_shape(draw_batch, key)


def main():
    """Train on one device and on several."""
    options = read_options(__doc__, steps=15)
    parallel = tofu.jax.partition(step, options.workers, example_args())  # the only new line
    batches = map(draw_batch, jax.random.split(jax.random.key(1), options.steps))
    train_side_by_side(step, parallel, make_state(jax.random.key(0)), batches)


if __name__ == "__main__":
    main()
