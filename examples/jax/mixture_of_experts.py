"""Train a mixture of experts. A router sends each token to one expert. An expert takes a limited number of tokens.

python examples/jax/mixture_of_experts.py
python -m tofu plan examples/jax/mixture_of_experts.py:step --workers 8
"""

import jax
import jax.numpy as jnp
from side_by_side import read_options, train_side_by_side

import tofu.jax

TOKENS, WIDTH, HIDDEN, EXPERTS = 512, 64, 256, 8
CAPACITY = 2 * TOKENS // EXPERTS
RATE = 0.2


def make_state(key):
    """Return the router, and two matrices for each expert."""
    one, two, three = jax.random.split(key, 3)
    return {
        "router": jax.random.normal(one, (WIDTH, EXPERTS)) / WIDTH**0.5,
        "up": jax.random.normal(two, (EXPERTS, WIDTH, HIDDEN)) / WIDTH**0.5,
        "down": jax.random.normal(three, (EXPERTS, HIDDEN, WIDTH)) / HIDDEN**0.5,
    }


def route(router, tokens):
    """Return a weight for each token, expert and position in the expert's queue, and the imbalance of the experts (1 is best)."""
    chances = jax.nn.softmax(tokens @ router)
    chosen = jax.nn.one_hot(jnp.argmax(chances, -1), EXPERTS, dtype=chances.dtype)
    # -1 for other experts. one_hot yields zeros for -1 and for positions beyond the capacity.
    place = (jnp.cumsum(chosen, 0) * chosen - 1).astype(int)
    taken = jax.nn.one_hot(place, CAPACITY, dtype=chances.dtype) * (chances * chosen)[..., None]
    return taken, EXPERTS * jnp.sum(jnp.mean(chosen, 0) * jnp.mean(chances, 0))


def find_loss(params, batch):
    """Return the squared error, plus a small penalty for imbalance."""
    tokens, targets = batch
    taken, unevenness = route(params["router"], tokens)
    queues = jnp.einsum("tec,tw->ecw", (taken > 0).astype(tokens.dtype), tokens)
    hidden = jax.nn.gelu(jnp.einsum("ecw,ewh->ech", queues, params["up"]))
    results = jnp.einsum("tec,ech,ehw->tw", taken, hidden, params["down"])
    return jnp.mean((results - targets) ** 2) + 0.01 * unevenness


def step(params, batch):
    """Run a training step. Return the next parameters and the loss."""
    loss, gradients = jax.value_and_grad(find_loss)(params, batch)
    return jax.tree.map(lambda p, g: p - RATE * g, params, gradients), loss


def draw_batch(key):
    """Return tokens of eight kinds, and their targets. A target is the token with its coordinates rotated by its kind."""
    one, two = jax.random.split(key)
    kinds = jax.random.randint(one, (TOKENS,), 0, EXPERTS)
    centres = jax.random.normal(jax.random.key(0), (EXPERTS, WIDTH))
    tokens = centres[kinds] + 0.5 * jax.random.normal(two, (TOKENS, WIDTH))
    return tokens, jax.vmap(jnp.roll)(tokens, kinds)


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
