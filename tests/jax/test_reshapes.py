import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.comparison import check_step
from tofu.jax.compare.traffic import count_traffic

# Pairs of shapes whose sizes do not nest, or whose first dimension is shorter than the number of workers, with a
# dimension to split: each shape then has equal contiguous shards.
SHAPES = [
    ((48, 10), (32, 15), 0),
    ((1, 48, 10), (32, 3, 5, 1), 1),
    ((3, 48, 10, 2), (3, 16, 30, 2), 1),
    ((16, 9), (24, 2, 3), 0),
    ((48, 10), (2, 24, 10), 0),
    ((3, 48, 10), (3, 2, 2, 12, 10), 1),
    ((24, 10), (2, 20, 6), 0),
]


def numbers(shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), "float32")


def step(x, weight):
    return jnp.sin(x.reshape(weight.shape)) * weight


def loop(x, weight):
    body = lambda _, x: jnp.sin(jnp.cos(x.reshape(weight.shape)) * weight).reshape(x.shape)  # noqa: E731
    return lax.fori_loop(0, 3, body, x)


FUNCTIONS = {
    "forward": step,
    "gradient": jax.grad(lambda x, weight: (step(x, weight) ** 2).sum(), argnums=(0, 1)),
    "tangent": lambda x, weight: jax.jvp(step, (x, weight), (weight.reshape(x.shape), weight)),
    "loop": loop,
}


def check(function, workers, x, weight, dimension):
    """Compare a partitioned step with one device. Return its bytes, which the plan and the compiled program agree on."""
    made = check_step(function, workers, x, weight, rtol=0, atol=0, hints={"x": dimension})
    moved = made.plan.communication_bytes
    assert count_traffic(made.lower(x, weight).compile().as_text(), workers).total == moved
    return moved


@pytest.mark.parametrize(("source", "target", "dimension"), SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_contiguous_shards_stay_where_they_are(name, source, target, dimension):
    assert check(FUNCTIONS[name], 8, numbers(source), numbers(target, 1), dimension) == 0


@pytest.mark.parametrize("workers", [2, 3, 6])
def test_other_numbers_of_workers(workers):
    assert check(step, workers, numbers((24, 15)), numbers((18, 20), 1), 0) == 0


def test_a_gradient_through_the_partitioned_step():
    x, weight = numbers((48, 10)), numbers((32, 15), 1)
    made = tofu.jax.partition(step, 8, (x, weight), hints={"x": 0})
    for found, wanted in zip(jax.vjp(made, x, weight)[1](weight), jax.vjp(step, x, weight)[1](weight), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
