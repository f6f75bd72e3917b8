import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.comparison import check_step
from tofu.jax.frontend.versions import in_double_precision

CASTS = [  # types before and after, and the extent of the last dimension
    ("uint16", "bfloat16", 8),
    ("float8_e4m3fn", "uint8", 8),
    ("float32", "uint8", 8),
    ("float64", "uint16", 8),
    ("uint8", "float32", 4),
    ("bfloat16", "uint32", 2),
    ("int8", "int4", 8),
]


@pytest.mark.parametrize(("before", "after", "width"), CASTS)
def test_bit_casts_are_exact(before, after, width):
    with in_double_precision():
        x = jnp.asarray(np.arange(12 * width).reshape(12, width) % 100, before)
        step = lambda x: lax.bitcast_convert_type(x, after)  # noqa: E731
        made = tofu.jax.partition(step, 4, (x,))
        assert made.plan.operators["bitcast_convert_type"] == ("i0",) * len(made.plan.factors)
        assert made.plan.communication_bytes == 0
        ours, expected = made(x), step(x)
        assert ours.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(ours).view(np.uint8), np.asarray(expected).view(np.uint8))


@pytest.mark.parametrize("generator", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e5m2"])
def test_random_numbers_of_narrow_types_equal_one_device(dtype, generator):
    def step(seed):
        return jax.random.normal(jax.random.key(seed, impl=generator), (12, 8), jnp.dtype(dtype))

    assert check_step(step, 3, jnp.uint32(3), rtol=0, atol=0)(jnp.uint32(3)).dtype == dtype


@pytest.mark.parametrize(("partitionable", "impl"), [(True, "threefry2x32"), (False, "threefry2x32"), (True, "rbg")])
@pytest.mark.parametrize(("workers", "dimension"), [(2, 0), (3, 0), (4, 1), (8, 1)])
def test_workers_draw_the_bits_of_their_shards(partitionable, impl, workers, dimension):
    def draw(key):
        bits = [jax.random.bits(key, (24, 16), f"uint{width}") for width in (8, 16, 32)]
        rows = jax.vmap(lambda key: jax.random.bits(key, (16, 3)))(jax.random.split(key, 24))
        return *bits, rows, jnp.where(jax.random.bernoulli(key, 0.5, (24, 16)), 1.0, 0.0)

    with jax.threefry_partitionable(partitionable):
        key = jax.random.key(3, impl=impl)
        names = tofu.jax.partition(draw, workers, (key,)).plan.operators if impl == "threefry2x32" else ()
        hints = {name: f"i{dimension}" for name in names if name.startswith("random_bits")}
        check_step(draw, workers, key, rtol=0, atol=0, hints=hints)


def test_dropout_needs_no_memory_for_the_bits_of_other_workers():
    def drop(x, key):
        return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0)

    x = jnp.ones((1024, 512))
    made = tofu.jax.partition(drop, 8, (x, jax.random.key(0)))
    temporaries = made.lower_leaves().compile().memory_analysis().temp_size_in_bytes
    assert temporaries <= 3.1 * x.nbytes / 8  # 32 x.nbytes / 8 if each worker draws all bits


@pytest.mark.parametrize("workers", [2, 4])
def test_random_keys_can_be_sliced_and_updated(workers):
    def step(keys, first):
        window = lax.dynamic_slice(keys, (first,), (4,))
        updated = lax.dynamic_update_slice(keys, keys[:3], (first,))
        return tuple(map(jax.random.key_data, (window, updated)))

    check_step(step, workers, jax.random.split(jax.random.key(0), 12), 3, rtol=0, atol=0, hints={"keys": 0})


@pytest.mark.parametrize("index_type", ["uint8", "int32", "int64"])
def test_random_keys_in_a_loop(index_type):
    def step(keys):
        add = lambda i, total: total + jax.random.uniform(keys[i.astype(index_type)], (8, 4))  # noqa: E731
        return lax.fori_loop(0, 4, add, jnp.zeros((8, 4)))

    with in_double_precision():
        made = check_step(step, 2, jax.random.split(jax.random.key(0), 4), rtol=1e-12, atol=0)
        assert made.memory_report().worker.arguments_bytes > 0


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"])
@pytest.mark.parametrize("reduce", [lax.reduce_max, lax.reduce_min])
def test_extremes_of_eight_bits_keep_nan(reduce, dtype):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(12, 5)), "float32").at[11, 3].set(jnp.nan).astype(dtype)
    check_step(lambda x: reduce(x, (0,)), 3, x, rtol=0, atol=0, hints={reduce.__name__: "i0"})


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2"])
def test_border_and_start_of_extremes_are_right_without_infinity(dtype):
    x = jnp.asarray(np.random.default_rng(1).normal(size=(12, 5)), "float32").astype(dtype)

    def step(x):
        return lax.cummax(x, 0), lax.cummin(x, 0), lax.reduce_window(x, -jnp.inf, lax.max, (3, 1), (1, 1), "SAME")

    check_step(step, 3, x, rtol=0, atol=0, hints={"x": 0})


def test_padding_with_zeros_of_both_signs_keeps_the_signs():
    x = jnp.ones((12, 4))

    def step(x):
        lower, upper = (lax.pad(x, jnp.float32(zero), ((1, 2, 0), (0, 0, 0))) for zero in (-0.0, 0.0))
        return lower, jnp.arctan2(upper, -1.0)

    made = tofu.jax.partition(step, 3, (x,), hints={"x": 0})
    for ours, expected in zip(made(x), jax.jit(step)(x), strict=True):
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(expected))
        np.testing.assert_allclose(ours, expected, rtol=1e-6)
