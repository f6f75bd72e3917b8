"""Operators along a split dimension exchange one partial result per worker, and their results equal one device's."""

from itertools import cycle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.comparison import check_step
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.frontend.blocks import divide_into_blocks
from tofu.jax.frontend.read_step import divide_step, read_step
from tofu.jax.frontend.versions import in_double_precision
from tofu.plan import Plan

LINES = 5
X = jnp.asarray(np.random.default_rng(0).standard_normal((48, LINES)), "float32")
INTEGERS = jnp.asarray(np.random.default_rng(1).integers(-9, 9, (48, LINES)), "int32")

SLICE, PAIR = 4 * LINES, 8 * LINES  # a partial result of all lines; a candidate's value and position
# Functions of an array that is split along its lines, and the bytes of a partial result.
ALONG = {
    "cumsum": (lambda x: jnp.cumsum(x, 0), SLICE),
    "cumsum of products": (lambda x: lax.cumsum(x @ x[:5], 0, reverse=True), SLICE),
    "cumprod": (lambda x: lax.cumprod(x, 0), SLICE),
    "cummax": (lambda x: lax.cummax(x, 0, reverse=True), SLICE),
    "cummin": (lambda x: lax.cummin(x, 0), SLICE),
    "argmax": (lambda x: jnp.argmax(x, 0), PAIR),
    "argmin": (lambda x: jnp.argmin(x, 0), PAIR),
    "top_k": (lambda x: lax.top_k(x.T, 3), 3 * PAIR),
    "argmax of all": (lambda x: jnp.argmax(x), PAIR),
}


@pytest.mark.parametrize(("name", "workers"), list(zip(ALONG, cycle([4, 6]), strict=False)))
def test_a_partial_result_of_each_worker_moves(name, workers):
    function, size = ALONG[name]
    for given in (X, INTEGERS):
        made = check_step(function, workers, given, hints={"x": 0}, rtol=1e-4)
        least = workers * (workers - 1) * size
        assert made.plan.communication_bytes <= least + ("products" in name) * (workers - 1) * 5 * SLICE
        if workers == 4:
            hlo = made.lower_leaves().compile().as_text()
            assert count_traffic(hlo, workers).total == made.plan.communication_bytes


def test_log_of_cumulative_sums_of_exponentials():
    made = check_step(lambda x: lax.cumlogsumexp(x - jnp.inf * (x > 1), 0), 4, X, hints={"x": 0})
    assert made.plan.communication_bytes <= 12 * SLICE


# Fourier transforms of several dimensions, and how many times each element may be transferred.
TRANSFORMS = {
    "two dimensions": (lambda x: jnp.fft.fft2(x), 2),
    "inverse": (lambda x: jnp.fft.ifft2(x), 2),
    "to frequencies and back": (lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 2), 2.5),
    "first dimensions": (lambda x: jnp.fft.fft2(x.reshape(48, 16, 3), axes=(0, 1)), 2),
    "three dimensions": (lambda x: jnp.fft.fftn(x.reshape(48, 4, 12)), 2),
    "real, of three dimensions": (lambda x: jnp.fft.rfftn(x.reshape(48, 4, 12)), 2.5),
    "gradient": (jax.grad(lambda x: (jnp.abs(jnp.fft.fft2(x.reshape(24, 96))) ** 3).sum()), 9),
}


@pytest.mark.parametrize(("name", "workers"), list(zip(TRANSFORMS, cycle([2, 8]), strict=False)))
def test_fourier_transforms_need_complete_lines_of_one_dimension_at_a_time(name, workers):
    function, times = TRANSFORMS[name]
    x = jnp.asarray(np.random.default_rng(0).standard_normal((48, 48)), "float32")
    largest = float(jnp.abs(function(x)).max())
    made = check_step(function, workers, x, hints={"x": 0}, rtol=1e-4, atol=1e-6 * largest)
    size = jax.eval_shape(function, x)
    assert made.plan.communication_bytes <= times * size.size * size.dtype.itemsize * (workers - 1) / workers
    hlo = made.lower_leaves().compile().as_text()
    assert count_traffic(hlo, workers).total == made.plan.communication_bytes


def test_fourier_transforms_of_enough_samples_stay_as_they_are():
    source = read_step(jnp.fft.fft2, (jnp.ones((2, 4, 6, 6)),))
    assert divide_step(source, 8) is None
    assert divide_step(source, 16) is not None


UNUSUAL = {
    "equal": [1.0, 3.0, 0.0, 3.0, 3.0, 2.0, 3.0, 1.0],
    "nan": [1.0, 3.0, np.nan, 3.0, np.inf, 2.0, np.nan, 1.0],
    "all nan": [np.nan] * 8,
    "negative zeros": [-0.0, -0.0, 0.0, -0.0, -0.0, 0.0, -0.0, -0.0],
    "infinite": [-np.inf, 3.0, -np.inf, -np.inf, np.inf, 2.0, -np.inf, -np.inf],
    "all -inf": [-np.inf] * 8,
}
EXACT = (jnp.cumsum, lax.cumprod, lax.cummax, lax.cummin, jnp.argmax, jnp.argmin, lambda x: lax.top_k(x, 2))


@pytest.mark.parametrize("name", UNUSUAL)
def test_ties_nans_and_signs_are_those_of_one_device(name):
    def step(x):
        return [function(x) for function in EXACT]

    x = jnp.asarray(UNUSUAL[name], "float32")
    made = tofu.jax.partition(step, 4, (x,), hints={"x": 0})
    for found, wanted in zip(jax.tree.leaves(made(x)), jax.tree.leaves(jax.jit(step)(x)), strict=True):
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "bool", "bfloat16", "complex64"])
def test_other_types(dtype):
    x = jnp.asarray(np.random.default_rng(0).integers(0, 2, (16, 4)), dtype)

    def step(x):
        extremes = [] if dtype == "complex64" else [jnp.argmax(x, 0), lax.argmin(x, 0, jnp.uint8)]
        sums = [] if dtype == "bool" else [lax.cumsum(x, 0), lax.cumprod(x, 0)]
        return [*extremes, *sums]

    check_step(step, 4, x, hints={"x": 0})


@pytest.mark.slow
def test_gradients_and_loops():
    def loss(x):
        def body(total, row):
            return total + jnp.cumsum(row) * row.argmax(), lax.cummax(row)

        total, stacked = lax.scan(jax.checkpoint(body), jnp.zeros(len(x)), x.T)
        return (jnp.cumsum(x, 0) ** 2).sum() + (total * stacked).sum()

    with in_double_precision():
        x = jnp.tile(jnp.asarray(X, "float64") / 10, (100, 1))
        made = check_step(jax.grad(loss), 4, x, hints={"x": 0}, rtol=1e-9, atol=1e-9)
        assert x.dtype == "float64"
    assert made.plan.communication_bytes < 8 * x.size / 10


def test_a_sampled_token_moves_one_candidate_of_each_worker():
    def sample(key, hidden, head):
        return jax.random.categorical(key, hidden @ head)

    hidden, head = jnp.ones((2, 8)), jnp.asarray(np.random.default_rng(0).standard_normal((8, 4096)), "float32")
    key = jax.random.key(3)
    made = check_step(sample, 8, key, hidden, head, rtol=0, atol=0, hints={"head": 1})
    assert made.plan.communication_bytes <= 8 * 7 * 8 * 2


def test_lines_without_equal_blocks_stay_as_they_are():
    source = read_step(lambda x: (jnp.cumsum(x, 0), lax.top_k(x.T, 20)), (X[:45],))
    assert divide_into_blocks(source.native.step, 2) is None
    assert divide_step(source, 1) is None
    assert divide_step(source, 3) is not None


def test_positions_that_the_index_type_lacks_are_those_of_one_device():
    x = np.zeros((300, 3), "uint8")
    x[[5, 200]] = 9
    step = lambda x: lax.argmax(x, 0, "int8")  # noqa: E731
    check_step(step, 3, x, rtol=0, atol=0)


def test_hints_and_plans_of_the_step_as_written_hold():
    x = X.reshape(16, 15)[:, :8]

    def step(x):
        return lax.cumsum(jnp.tanh(x), 1) * 2

    written = check_step(step, 4, x, hints={"cumsum": "i0"})
    assert written.plan.operators["cumsum"] == ("i0", "i0")
    again = tofu.jax.partition(step, 4, (x,), plan=Plan.from_json(written.plan.to_json()))
    assert again.plan.operators == written.plan.operators
    assert "cumsum" not in check_step(step, 4, x).plan.operators


def test_names_mean_the_same_operators_in_blocks():
    """Only the second step has equal blocks."""

    def step(x):
        return lax.top_k(lax.cumsum(lax.cumsum(x, 0), 1), 2)

    source = read_step(step, (jnp.ones((7, 16)),))
    divided = divide_step(source, 4)
    assert "cumsum" in divided.graph.operator_index
    assert not {"cumsum_1", "top_k"} & divided.graph.operator_index.keys()
    assert source.graph.tensor_index.keys() <= divided.graph.tensor_index.keys()
    check_step(step, 4, jnp.ones((7, 16)), hints={"cumsum": "i1"})
