"""Compare partitioned steps with the original steps on one device."""

import jax
import numpy as np
import pytest

import tofu.jax
from tests.models.jax import as_numbers
from tofu.jax import UnevenArray


def assert_close(found, expected, rtol=1e-5, atol=1e-5):
    for ours, theirs in zip(as_numbers(found), as_numbers(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


def list_differences(found, expected):
    pairs = zip(*map(jax.tree.leaves, (found, expected)), strict=True)
    return [pair for pair in pairs if not np.allclose(*pair, rtol=1e-12, atol=1e-12, equal_nan=True)]


def check_step(step, workers, *arguments, rtol=1e-5, atol=1e-5, **options):
    made = tofu.jax.partition(step, workers, arguments, **options)
    assert_close(made(*arguments), jax.jit(step)(*arguments), rtol, atol)
    return made


def check_training(made, step, state, data):
    ours, whole = made.place(state), jax.jit(step)
    for _ in range(3):
        state, loss = whole(state, data)
        ours, our_loss = made(ours, data)
    assert float(loss) == pytest.approx(float(our_loss), rel=1e-10)
    shardings = [x.parts if isinstance(x, UnevenArray) else x.sharding for x in jax.tree.leaves(ours)]
    assert shardings == jax.tree.leaves(made.shardings[0])
    assert_close(ours, state, 1e-9, 1e-11)
