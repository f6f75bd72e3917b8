"""Reversals that cancel each other move nothing, and leave the numbers of one device."""

from functools import reduce
from itertools import cycle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.jax.comparison import check_step
from tofu.jax.frontend.trace import trace_step

ROWS = 48
X = jnp.asarray(np.random.default_rng(0).standard_normal((ROWS, 6)), "float32")
W = jnp.asarray(np.random.default_rng(1).standard_normal((ROWS, 1)), "float32")


def flip(x, *dimensions):
    return jnp.flip(x, dimensions or 0)


def join(a, b):
    return a[0] * b[0], a[1] * b[0] + b[1]


# Functions that reverse an array, and equal functions without reversals.
PAIRS = {
    "cumsum": (lambda x: flip(jnp.cumsum(flip(x), 0)), lambda x: lax.cumsum(x, 0, reverse=True)),
    "cummax of some rows": (
        lambda x: flip(lax.cummax(jnp.where(jnp.arange(ROWS)[:, None] < 30, flip(x), 0), 0)),
        lambda x: lax.cummax(jnp.where(jnp.arange(ROWS)[::-1, None] < 30, x, 0), 0, reverse=True),
    ),
    "one of two dimensions": (lambda x: flip(jnp.cumsum(flip(x, 0, 1), 1)), lambda x: jnp.cumsum(flip(x, 1), 1)),
    "gradient": (
        jax.grad(lambda x: (jnp.tanh(flip(jnp.cumsum(flip(x), 0))) ** 2).sum()),
        jax.grad(lambda x: (jnp.tanh(lax.cumsum(x, 0, reverse=True)) ** 2).sum()),
    ),
    "slices and pads": (
        lambda x: flip(lax.pad(flip(x)[1:40:3] * 2, 1.0, ((2, -3, 2), (0, 1, 0)))),
        lambda x: lax.pad(x[46:7:-3][::-1] * 2, 1.0, ((-3, 2, 2), (0, 1, 0))),
    ),
    "reshaped and transposed": (
        lambda x: flip(jnp.cumsum(flip(x).T.reshape(6, 4, 12), 2), 1, 2).reshape(6, ROWS),
        lambda x: lax.cumsum(x.T.reshape(6, 4, 12), 2, reverse=True).reshape(6, ROWS),
    ),
    "roll": (lambda x: flip(jnp.roll(flip(x), 3, 0)), lambda x: jnp.roll(x, -3, 0)),
    "loop": (
        lambda x: lax.fori_loop(0, 3, lambda _, y: flip(jnp.cumsum(jnp.sin(flip(y)), 0)), x),
        lambda x: lax.fori_loop(0, 3, lambda _, y: lax.cumsum(jnp.sin(y), 0, reverse=True), x),
    ),
}


@pytest.mark.parametrize(("name", "workers"), list(zip(PAIRS, cycle([3, 8]), strict=False)))
def test_reversals_that_cancel_each_other_move_nothing(name, workers):
    with_reversals, without = PAIRS[name]
    made = check_step(with_reversals, workers, X, hints={"x": 0}, rtol=1e-4, atol=1e-4)
    least = check_step(without, workers, X, hints={"x": 0}, rtol=1e-4, atol=1e-4)
    assert made.plan.communication_bytes <= least.plan.communication_bytes


def test_a_reversed_scan_of_pairs_moves_as_much_as_a_forward_scan():
    def scan(x, reverse):
        return lax.associative_scan(join, (x, x * 2), reverse=reverse)[1]

    forward, backward = (
        check_step(lambda x, reverse=reverse: scan(x, reverse), 8, X, hints={"x": 0}, rtol=1e-4, atol=1e-4)
        for reverse in (False, True)
    )
    assert backward.plan.communication_bytes <= 1.05 * forward.plan.communication_bytes


def count_reversals(function, *arguments):
    return sum(equation.primitive.name == "rev" for equation in trace_step(function, arguments)[0].walk())


def test_only_what_gains_is_rewritten():
    assert count_reversals(lambda x: flip(jnp.sin(x)), X) == 1
    assert count_reversals(lambda x, w: flip(jnp.sin(x) * w), X, W) == 1
    assert trace_step(lambda x, w: flip(jnp.sin(x) * w), (X, W[:1]))[0].equations[-1].primitive.name == "rev"
    assert count_reversals(lambda x, w: flip(flip(x) * w), X, W) == 1  # the smaller operand is reversed
    assert count_reversals(lambda x: flip(flip(x).reshape(6, 8, 6)), X) == 2  # reversed blocks are no reversal
    assert count_reversals(lambda x: (jnp.cumsum(flip(x), 0), flip(jnp.cumsum(flip(x), 0))), X) == 1
    assert count_reversals(lambda x: flip(x) @ flip(x.T, 1), X) == 2


# Functions that keep the shape of an array, with a dimension and a number that are drawn.
OPERATORS = (
    lambda x, d, n: flip(x, d),
    lambda x, d, n: flip(x, 0, 1),
    lambda x, d, n: lax.cumsum(x, d, reverse=n > 2) / 8,
    lambda x, d, n: jnp.roll(x, n, d),
    lambda x, d, n: x * W + jnp.arange(ROWS)[:, None] / ROWS,
    lambda x, d, n: lax.pad(x, 0.5, ((n, -n, 0), (0, 0, 0))),
    lambda x, d, n: lax.pad(x[1::2], -1.0, ((n, 1 - n, 1), (0, 0, 0))),
    lambda x, d, n: jnp.concatenate([x[n:], x[:n] * 2]),
    lambda x, d, n: jnp.sin(x.reshape(6, 8, 6)[:, :: -1 if n > 2 else 1].transpose(0, 2, 1)).reshape(ROWS, 6),
)


def draw_function(draws):
    drawn = draws.integers(0, [len(OPERATORS), 2, 5], size=(6, 3)).tolist()
    last = draws.choice([0, 1], size=draws.integers(1, 3), replace=False).tolist()
    return lambda x: flip(reduce(lambda x, one: OPERATORS[one[0]](x, *one[1:]), drawn, x), *last)


@pytest.mark.parametrize("seed", range(12))
def test_random_functions(seed):
    draws = np.random.default_rng(seed)
    check_step(draw_function(draws), int(draws.choice([2, 3])), X, rtol=1e-3, atol=1e-4)
