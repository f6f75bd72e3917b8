"""Windows, lookups, positions and transforms in parts, where XLA would compute something else for many devices."""

import re
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.comparison import check_step
from tests.shared.random_plans import random_plan
from tofu.errors import PlanError
from tofu.jax import read_step
from tofu.jax.frontend.versions import in_double_precision


def test_windows_beyond_the_end_are_clipped():
    """Guard against XLA, which joins the step's slice with the worker's slice and clips neither."""
    x, update = (np.arange(48.0, dtype=np.float32).reshape(8, 6) + n for n in (0, 100))
    for begin in (-3, 3, 1000):

        def step(x, update, begin):
            window = lax.dynamic_slice(x * 2, (begin, begin), (3, 2))
            return window, lax.dynamic_update_slice(x * 3, update[:3, :2], (begin, begin))

        whole = {"dynamic_slice": None}
        for hints in ({}, whole, whole | {"mul": [1, None]}, {"dynamic_update_slice": None}):
            check_step(step, 4, x, update, np.int32(begin), rtol=0, atol=0, hints=hints)


@pytest.mark.parametrize("mode", ["clip", "fill"])
def test_lookups_with_an_index_of_a_dimension_that_they_read_completely(mode):
    table, indices = np.arange(96.0, dtype=np.float32).reshape(12, 8), np.array([[3, 0], [11, 1], [-2, 0]])
    numbers = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0, 1))

    def step(table, indices):
        return lax.gather(table, indices, numbers, (1, 8), mode=mode)

    check_step(step, 3, table, indices, rtol=0, atol=0, hints={"table": 0})


def test_dimensions_may_be_ranges():
    numbers = lax.GatherDimensionNumbers(range(1, 2), range(1), range(1))
    scattered = lax.ScatterDimensionNumbers(range(1, 2), range(1), range(1))
    convolved = lax.ConvDimensionNumbers(range(3), range(3), range(3))

    def step(x, rows):
        found = lax.gather(x, rows, numbers, slice_sizes=(1, 8))
        window = lax.conv_general_dilated(x[None], x.T[:6, :, None], (1,), "SAME", dimension_numbers=convolved)
        return found, lax.scatter_add(x, rows, found, scattered), jnp.max(x, axis=range(1)), window

    x, rows = np.arange(96.0, dtype=np.float32).reshape(12, 8), np.array([[0], [3], [5], [5]])
    for workers in (2, 3):
        check_step(step, workers, x, rows, hints={"x": 0})


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int32", "bool"])
def test_maximum_and_minimum_with_nan_equal_one_device(dtype):
    """Guard against XLA's maximum over devices, which drops NaN."""
    with in_double_precision():
        x = np.random.default_rng(3).normal(size=(64, 6)) * 100
        x[5, 1], x[40, 2], x[63, 3], x[0, 3], x[:, 4] = np.nan, -np.nan, np.inf, np.nan, -np.inf
        x = jnp.asarray(np.nan_to_num(x) if dtype in ("int32", "bool") else x).astype(dtype)
        for reduce in (lambda x: jnp.max(x, 0), lambda x: jnp.min(x, 0)):
            for axis in ("i0", "i1"):
                names = tofu.jax.partition(reduce, 2, (x,), search_seconds=1).plan.operators
                hints = {name: axis for name in names if name.startswith("reduce_")}
                with suppress(PlanError):
                    check_step(reduce, 2, x, rtol=0, atol=0, hints=hints)
        ids = np.arange(64, dtype=np.int32) % 3

        def segments(x):
            return jax.ops.segment_max(x, ids, num_segments=3)

        if dtype != "bool":
            check_step(segments, 2, x, rtol=0, atol=0, hints={"scatter-max": "u0"})


@pytest.mark.parametrize(("join", "workers"), [("max", 2), ("min", 4)])
def test_extremes_of_complex_numbers_equal_one_device(join, workers):
    """Reduce over workers, and exchange updates of rows that several workers scatter to, under random plans."""
    draws = np.random.default_rng(3)
    x, updates = ((draws.integers(-2, 3, size=(8, 6)) + 1j * draws.integers(-2, 3, size=(8, 6))) for _ in range(2))
    x, updates, rows = x.astype("complex64"), updates.astype("complex64"), np.array([3, 5, 5, 0, 7, 3, 1, 1])

    def step(x, updates):
        return getattr(jnp, join)(x, 0), getattr(x.at[rows], join)(updates)

    searched = tofu.jax.partition(step, workers, (x, updates)).partition
    for seed in range(6):
        check_step(step, workers, x, updates, rtol=0, atol=0, plan=random_plan(searched, seed))


@pytest.mark.parametrize(("dtype", "workers"), [("float64", 2), ("bfloat16", 4), ("int32", 4)])
def test_products_over_workers_equal_one_device(dtype, workers):
    with in_double_precision():
        x = jnp.asarray(np.random.default_rng(3).integers(1, 3, size=(8, 6))).astype(dtype)  # powers of two: exact
        check_step(lambda x: jnp.prod(x, 0), workers, x, rtol=0, atol=0, hints={"reduce_prod": "i0"})


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32"])
def test_tables_may_be_longer_than_their_index_type(dtype):
    """The second worker's first row is 300, which 8 bits cannot hold."""
    table, indices = np.arange(1200, dtype=np.float32).reshape(600, 2), np.array([1, 2, 99, 5, 0, 127, 2, 3], dtype)
    lookups = [lambda x, n: jnp.take(x, n, axis=0, mode="clip")]
    if dtype != "int8":
        lookups += [lambda x, n: jnp.take(x, n, axis=0, mode="fill"), lambda x, n: x.at[n].add(1.0)]
        lookups += [lambda x, n: x.at[n].get(mode="promise_in_bounds")]
    for look_up in lookups:
        operators = read_step(look_up, (table, indices)).graph.operators
        (name,) = (operator.name for operator in operators if re.search("gather|scatter", operator.name))
        check_step(look_up, 2, table, indices, rtol=0, atol=0, hints={name: "v0"})


@pytest.mark.parametrize("dimension", [0, 1])
def test_arrays_may_be_longer_than_the_type_of_a_start(dimension):
    """195 is -61 in 8 bits."""

    @tofu.jax.partition(workers=4, hints={"x": dimension})
    def step(x, row):
        return lax.dynamic_update_slice(x, x[:5] + 1, (row, row * 0))

    written = step(np.zeros((200, 4), np.float32), np.int8(120))
    np.testing.assert_array_equal(np.flatnonzero(written[:, 0]), range(120, 125))


@pytest.mark.parametrize("workers", [2, 3])
def test_lookups_keep_the_sign_of_zero(workers):
    """Guard against sums of partial lookups, which turn -0.0 into 0.0."""
    rows = np.array([3, 6, 9, -2, 0])
    with in_double_precision():
        for dtype in ("float64", "float32"):
            x = jnp.where(jnp.arange(24).reshape(6, 4) % 3 == 0, -0.0, 1.5).astype(dtype)
            for mode in ("fill", "clip"):
                step = lambda x: 1 / x.at[rows].get(mode=mode)  # noqa: E731, B023
                check_step(step, workers, x, rtol=0, atol=0, hints={"x": 0, "gather": "v0"})


def test_iota_counts_before_rounding():
    """Half precision has 8 or 11 binary digits: a rounded position plus an offset, rounded again, is another number."""
    for dtype, extent in ((jnp.bfloat16, 3000), (jnp.float16, 12000)):

        def count(x, dtype=dtype, extent=extent):
            return lax.iota(dtype, extent), x * 2

        check_step(count, 4, np.ones(8, np.float32), rtol=0, atol=0, hints={"iota": "i0"})


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_several_random_keys_equal_one_device(kind):
    """Guard against XLA's own generator, which draws for all keys from the first."""
    keys = jax.random.split(jax.random.key(7, impl=kind), 8)

    def step(keys):
        following = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, 1))[0])(keys)
        return following, jax.vmap(lambda key: jax.random.bits(key, (4,)))(keys)

    check_step(step, 4, keys, rtol=0, atol=0)
