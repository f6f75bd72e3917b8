"""Updates that read the array they change are right, although XLA on CPUs may compute them in place too early."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tofu.jax.frontend.overwrites import find_overwriting_updates
from tofu.jax.frontend.read_step import read_step

UPDATES = {
    "set": lambda z: z.at[1:4].set(2 * z[0:3]),
    "update": lambda z: lax.dynamic_update_slice(z, 2 * z[0:3], (1, 0)),
    "reversed": lambda z: lax.dynamic_update_slice(z, z[:3, ::-1], (0, 0)),
    "after a product": lambda z: (z * 1).at[1:4].set(2 * z[0:3]),
    "of a maximum over one row": lambda z: lax.dynamic_update_slice(z[None].max(0), 2 * z[0:3], (1, 0)),
    "reshaped": lambda z: lax.dynamic_update_slice(z.reshape(2, -1, z.shape[1]), 2 * z[None, :3], (0, 1, 0)),
}


@pytest.mark.parametrize("shape", [(12, 4), (12, 1), (4096, 8)])
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("name", UPDATES)
def test_an_update_reads_the_old_elements(name, workers, shape):
    step = lambda x: UPDATES[name](jnp.cumsum(x, 0))  # noqa: E731
    x = np.arange(np.prod(shape), dtype="int32").reshape(shape) % 7
    with jax.disable_jit():
        expected = step(x)
    np.testing.assert_array_equal(tofu.jax.partition(step, workers, (x,))(x), expected)


def update(z):
    return z.at[1:4].set(2 * z[0:3])


STEPS = {
    "equal arrays": lambda x: jnp.cumsum(x, 0).at[1:4].set(2 * jnp.cumsum(x, 0)[0:3]),
    "in a loop": lambda x: lax.fori_loop(0, 3, lambda _, x: update(jnp.cumsum(x, 0) % 97), x),
    "equal arrays in a loop": lambda x: lax.fori_loop(
        0, 3, lambda _, x: jnp.cumsum(x, 0).at[1:4].set(2 * jnp.cumsum(x, 0)[0:3]), x
    ),
    "in a loop of one iteration": lambda x: lax.scan(
        lambda z, _: (update(z), None), jnp.cumsum(x, 0) * 2, None, length=1
    )[0],
}


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("name", STEPS)
def test_xla_merges_and_moves_operations_before_an_update(name, workers):
    x = np.arange(64 * 512, dtype="int32").reshape(64, 512) % 7
    with jax.disable_jit():
        expected = STEPS[name](x)
    np.testing.assert_array_equal(tofu.jax.partition(STEPS[name], workers, (x,))(x), expected)


@pytest.mark.parametrize("first", [0, 1, 5])
def test_an_update_at_a_computed_position_reads_the_old_elements(first):
    def step(x, first):
        sums = jnp.cumsum(x.reshape(2, 6, 4), 1)
        window = lax.dynamic_slice(sums, (0, first, 0), (1, 3, 4))[0]
        return lax.dynamic_update_slice(sums.reshape(12, 4), 2 * window, (first + 1, 0))

    arguments = np.arange(48, dtype="int32").reshape(12, 4) % 7, np.int32(first)
    with jax.disable_jit():
        expected = step(*arguments)
    np.testing.assert_array_equal(tofu.jax.partition(step, 2, arguments)(*arguments), expected)


def _count(step):
    return len(find_overwriting_updates(read_step(step, (jnp.ones((12, 4)),)).native.step))


def test_other_updates_stay_in_place():
    def fill(x):
        return lax.fori_loop(1, 12, lambda i, x: lax.dynamic_update_slice(x, x[i - 1][None] + 1, (i, 0)), x)

    assert _count(lambda x: lax.dynamic_update_slice(x + 1, x[:3] @ jnp.ones((4, 4)), (1, 0))) == 0
    assert _count(fill) == 0
    assert _count(lambda x: lax.fori_loop(0, 3, lambda _, x: update(x).at[5:7].set(x[:2]), x)) == 0
    assert _count(lambda x: lax.dynamic_update_slice(x, x[:3] + 1, (1, 0))) == 1
