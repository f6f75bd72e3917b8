"""A lockstep program computes the results of the program that it is made from, and of one device."""

from functools import reduce

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.comparison import check_step
from tests.shared.random_plans import random_plan


def flat(x):
    return x.reshape(12, -1)


# Functions from an array of 12 rows to another. A number is drawn for each.
OPERATORS = (
    lambda x, n: lax.pad(x, -1.5, ((n, 2 - n, 0), (0, 0, 0)))[: x.shape[0]],
    lambda x, n: lax.pad(x, 0.5, ((0, 12 * n, 0), (0, n, 0)))[-12:],
    lambda x, n: jnp.concatenate([x[n:] * 2, x[: n + 1], x[:n]])[:12],
    lambda x, n: jnp.roll(x, n + 1, n % 2) - x,
    lambda x, n: x.at[n:-1].add(x[1 : x.shape[0] - n]),
    lambda x, n: flat(jnp.stack([x, x + n], 1 + n % 2)),
    lambda x, n: flat((x.T @ x).reshape(1, -1)[:, :1] * x),
    lambda x, n: x - x.sum(n % 2, keepdims=True) + x.max(),
    lambda x, n: flat(jnp.tanh(x).reshape(-1)[::-1]),
    lambda x, n: jnp.cumsum(x, n % 2) / 4,
    lambda x, n: flat(x.reshape(4, 3, -1).transpose(1, 0, 2)[:, :: -1 if n else 1]),
    lambda x, n: x[:, : max(1, x.shape[1] - n)],
)


def draw_step(draws):
    drawn = draws.integers(0, [len(OPERATORS), 3], size=(int(draws.integers(2, 7)), 2)).tolist()
    return lambda x: reduce(lambda x, one: OPERATORS[one[0]](x, one[1]), drawn, x)


@pytest.mark.parametrize("seed", [*range(5), 121, 238])  # in the last two, parts of a sum overlap
def test_random_steps(seed):
    draws = np.random.default_rng(seed)
    step, x = draw_step(draws), draws.standard_normal((12, int(draws.choice([1, 4, 6])))).astype("float32")
    workers = int(draws.choice([2, 3, 4, 6]))
    options = {"uneven": "free", "cache": False}
    searched = tofu.jax.partition(step, workers, (x,), **options).partition
    for plan in (searched.plan, *(random_plan(searched, seed) for seed in range(2))):
        check_step(step, workers, x, rtol=1e-4, atol=1e-4, plan=plan, **options)


@pytest.mark.parametrize("seed", [7, 49])
def test_a_shard_that_another_worker_reads_from_a_fetch_is_fetched_once(seed):
    step, x = lambda x: x[2:3] * 2, np.arange(28.0, dtype="float32").reshape(4, 7)
    plan = random_plan(tofu.jax.partition(step, 4, (x,), uneven="needed", cache=False).partition, seed)
    made = check_step(step, 4, x, uneven="needed", plan=plan, cache=False)
    assert made.partition.training.lockstep.moved_bytes == made.partition.program.remote_bytes
