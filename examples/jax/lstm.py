"""Train an LSTM over 64 time steps with `lax.scan`. It learns to add the two marked numbers of a sequence.

python examples/jax/lstm.py
python -m tofu plan examples/jax/lstm.py:step --workers 8
"""

import jax
import jax.numpy as jnp
import optax
from side_by_side import read_options, train_side_by_side

import tofu.jax

BATCH, LENGTH, WIDTH, LAYERS = 64, 64, 128, 2
OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


def make_state(key):
    """Return the parameters and the state of the optimizer."""
    *keys, last = jax.random.split(key, LAYERS + 1)
    params = {"cells": [], "out": jax.random.normal(last, (WIDTH, 1)) / WIDTH**0.5}
    for number, (one, two) in enumerate(map(jax.random.split, keys)):
        width = WIDTH if number else 2
        cell = {
            "x": jax.random.normal(one, (width, 4, WIDTH)) / width**0.5,
            "h": jax.random.normal(two, (WIDTH, 4, WIDTH)) / WIDTH**0.5,
            "bias": jnp.zeros((4, WIDTH)),
        }
        params["cells"].append(cell)
    return params, OPTIMIZER.init(params)


def run_cell(cell, carry, x):
    """Run one time step of one layer."""
    h, c = carry
    gates = jnp.einsum("bi,igo->gbo", x, cell["x"]) + jnp.einsum("bi,igo->gbo", h, cell["h"]) + cell["bias"][:, None]
    put, keep, show = jax.nn.sigmoid(gates[0]), jax.nn.sigmoid(gates[1] + 1), jax.nn.sigmoid(gates[2])
    c = keep * c + put * jnp.tanh(gates[3])
    h = show * jnp.tanh(c)
    return (h, c), h


def find_loss(params, batch):
    """Return half of the squared error."""
    sequences, sums = batch
    rest = jnp.zeros((BATCH, WIDTH))

    def run_layers(carries, x):
        after = []
        for cell, carry in zip(params["cells"], carries, strict=True):
            carry, x = run_cell(cell, carry, x)
            after.append(carry)
        return after, None

    carries, _ = jax.lax.scan(run_layers, [(rest, rest)] * LAYERS, sequences)
    return jnp.mean(optax.l2_loss((carries[-1][0] @ params["out"])[:, 0], sums))


def step(state, batch):
    """Run a training step. Return the next state and the loss."""
    params, moments = state
    loss, gradients = jax.value_and_grad(find_loss)(params, batch)
    updates, moments = OPTIMIZER.update(gradients, moments, params)
    return (optax.apply_updates(params, updates), moments), loss


def draw_batch(key):
    """Return sequences of pairs (number, mark), time first, and the sums of the two marked numbers."""
    one, two, three = jax.random.split(key, 3)
    numbers = jax.random.uniform(one, (LENGTH, BATCH))
    first = jax.random.randint(two, (BATCH,), 0, LENGTH // 2)
    second = jax.random.randint(three, (BATCH,), LENGTH // 2, LENGTH)
    times = jnp.arange(LENGTH)[:, None]
    marks = ((times == first) | (times == second)).astype(numbers.dtype)
    return jnp.stack([numbers, marks], -1), jnp.sum(numbers * marks, 0)


def example_args():
    """Return the shapes and types to plan for."""
    key = jax.random.key(0)
    return jax.eval_shape(make_state, key), jax.eval_shape(draw_batch, key)


def main():
    """Train on one device and on several."""
    options = read_options(__doc__, steps=20)
    parallel = tofu.jax.partition(step, options.workers, example_args())  # the only new line
    batches = map(draw_batch, jax.random.split(jax.random.key(1), options.steps))
    train_side_by_side(step, parallel, make_state(jax.random.key(0)), batches)


if __name__ == "__main__":
    main()
