import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.comparison import assert_close

LAYERS, BATCH, WIDTH, STEPS = 4, 96, 128, 6
RANDOM = np.random.default_rng(0)


def draw(*shape):
    return jnp.asarray(RANDOM.normal(size=shape) / np.sqrt(shape[-1]), jnp.float32)


def descend(loss):

    def step(state, x, y):
        value, gradient = jax.value_and_grad(loss)(state, x, y)
        return jax.tree.map(lambda w, g: w - 0.1 * g, state, gradient), value

    return step


def over_layers():
    def loss(state, x, y):
        hidden, _ = lax.scan(lambda h, p: (jnp.tanh(h @ p["w"] + p["b"]), None), x, state)
        return ((hidden - y) ** 2).mean()

    state = {"w": draw(LAYERS, WIDTH, WIDTH), "b": draw(LAYERS, WIDTH)}
    return descend(loss), (state, draw(BATCH, WIDTH), draw(BATCH, WIDTH))


def over_time():

    def loss(state, x, y):
        def cell(h, now):
            h = jnp.tanh(h @ state["w"] + now @ state["u"])
            return h, h @ state["o"]

        return ((lax.scan(cell, jnp.zeros((BATCH, WIDTH)), x)[1] - y) ** 2).mean()

    state = {name: draw(WIDTH, WIDTH) for name in "wuo"}
    return descend(loss), (state, draw(STEPS, BATCH, WIDTH), draw(STEPS, BATCH, WIDTH))


def over_micro_batches():
    def loss(state, x, y):
        return ((jnp.tanh(x @ state["w"]) @ state["o"] - y) ** 2).mean()

    def step(state, x, y):
        def one(total, data):
            value, gradient = jax.value_and_grad(loss)(state, *data)
            return jax.tree.map(jnp.add, total, gradient), value

        total, values = lax.scan(one, jax.tree.map(jnp.zeros_like, state), (x, y))
        return jax.tree.map(lambda w, g: w - 0.1 * g, state, total), values.mean()

    state = {name: draw(WIDTH, WIDTH) for name in "wo"}
    return step, (state, draw(STEPS, BATCH, WIDTH), draw(STEPS, BATCH, WIDTH))


@pytest.mark.parametrize(("make", "workers"), [(over_layers, 2), (over_time, 3), (over_micro_batches, 4)])
def test_loops_are_split_by_batch_and_gradients_reduced_once(make, workers):
    step, arguments = make()
    made = tofu.jax.partition(step, workers, arguments, algorithm="data-parallel")
    products = [steps for name, steps in made.plan.operators.items() if "dot_general" in name]
    assert products
    assert all(None not in steps for steps in products)
    assert all(set(made.plan.tensors[f"state/{name}"]) == {None} for name in arguments[0])
    all_reduced = 2 * (workers - 1) * sum(leaf.nbytes for leaf in arguments[0].values())
    assert made.plan.communication_bytes < 1.01 * all_reduced
    assert_close(made(*arguments), jax.jit(step)(*arguments))


def test_means_over_the_batch_are_replicated_within_a_loop():
    def loss(state, x, y):
        def layer(carried, w):
            h, mean = carried
            h = jnp.tanh(h @ w - mean)
            return (h, h.mean(0)), None

        (h, mean), _ = lax.scan(layer, (x, jnp.zeros(WIDTH)), state)
        return ((h - y) ** 2).mean() + (mean**2).sum()

    step, arguments = descend(loss), (draw(LAYERS, WIDTH, WIDTH), draw(BATCH, WIDTH), draw(BATCH, WIDTH))
    made = tofu.jax.partition(step, 4, arguments, algorithm="data-parallel")
    carried = [made.plan.tensors[name] for name in made.plan.tensors if name in ("scan/carry_0", "scan/carry_1")]
    assert sorted(map(str, carried)) == ["(0, 0)", "(None, None)"]
    np.testing.assert_allclose(made(*arguments)[0], jax.jit(step)(*arguments)[0], atol=1e-5)
