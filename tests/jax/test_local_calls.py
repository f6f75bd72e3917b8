"""What XLA would do otherwise in a program for many devices: windows, lookups, positions and transforms in parts are those of one."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tofu.errors import PlanError
from tofu.jax import read_step
from tofu.jax.frontend.versions import in_double_precision


@pytest.mark.parametrize("workers", [2, 4])
def test_a_window_that_begins_beyond_the_end_is_moved_inside(workers):
    """XLA joins two dynamic slices, that of the step and that of a worker's part, and moves neither inside."""
    x, update = (np.arange(48.0, dtype=np.float32).reshape(8, 6) + n for n in (0, 100))
    for begin in (-3, 0, 3, 5, 1000):

        def step(x, update, begin):
            window = lax.dynamic_slice(x * 2, (begin, begin), (3, 2))
            return window, lax.dynamic_update_slice(x * 3, update[:3, :2], (begin, begin))

        for hints in (
            {},
            {"dynamic_slice": None},
            {"dynamic_slice": None, "mul": [1] + [None] * (workers // 2 - 1)},
            {"dynamic_update_slice": None},
        ):
            made = tofu.jax.partition(step, workers, (x, update, np.int32(begin)), hints=hints)
            for ours, whole in zip(made(x, update, np.int32(begin)), jax.jit(step)(x, update, begin), strict=True):
                np.testing.assert_array_equal(ours, whole)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int32", "bool"])
def test_the_largest_and_the_smallest_over_workers_are_those_of_one_device(dtype):
    """Where one of them has NaN, too, which XLA's maximum over devices leaves out."""
    with in_double_precision():
        x = np.random.default_rng(3).normal(size=(64, 6)) * 100
        x[5, 1], x[40, 2], x[63, 3], x[0, 3], x[:, 4] = np.nan, -np.nan, np.inf, np.nan, -np.inf
        x = jnp.asarray(np.nan_to_num(x) if dtype in ("int32", "bool") else x).astype(dtype)
        for largest in (lambda x: jnp.max(x, 0), lambda x: jnp.min(x, 0)):
            for axis in ("i0", "i1"):
                names = tofu.jax.partition(largest, 2, (x,), search_seconds=1).plan.operators
                hints = {name: axis for name in names if name.startswith("reduce_")}
                try:
                    made = tofu.jax.partition(largest, 2, (x,), hints=hints)
                except PlanError:
                    continue
                np.testing.assert_array_equal(np.asarray(made(x), float), np.asarray(jax.jit(largest)(x), float))
        ids = np.arange(64, dtype=np.int32) % 3

        def segments(x):
            return jax.ops.segment_max(x, ids, num_segments=3)

        if dtype != "bool":
            made = tofu.jax.partition(segments, 2, (x,), hints={"scatter-max": "u0"})
            np.testing.assert_array_equal(np.asarray(made(x), float), np.asarray(jax.jit(segments)(x), float))


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int32"])
@pytest.mark.parametrize("workers", [2, 4])
def test_the_product_over_workers_is_that_of_one_device(dtype, workers):
    with in_double_precision():
        x = jnp.asarray(np.random.default_rng(3).integers(1, 3, size=(8, 6))).astype(dtype)  # powers of two: exact
        made = tofu.jax.partition(lambda x: jnp.prod(x, 0), workers, (x,), hints={"reduce_prod": "i0"})
        np.testing.assert_array_equal(np.asarray(made(x), float), np.asarray(jnp.prod(x, 0), float))


def test_truths_are_looked_up_in_parts():
    table, rows = np.random.default_rng(1).random((8, 6)) > 0.5, np.arange(8)[::-1].astype(np.int32)

    def lines(table, rows):
        return table[rows]

    whole = jax.jit(lines)(table, rows)
    for axis in ("v0", "w1", "i0"):
        made = tofu.jax.partition(lines, 2, (table, rows), hints={"gather": axis})
        np.testing.assert_array_equal(made(table, rows), whole)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32"])
def test_a_table_may_be_longer_than_its_indices_can_say(dtype):
    """The first row of the second worker's part is 300: no number of eight bits."""
    table, indices = np.arange(1200, dtype=np.float32).reshape(600, 2), np.array([1, 2, 99, 5, 0, 127, 2, 3], dtype)
    lookups = [lambda x, n: jnp.take(x, n, axis=0, mode="clip")]
    if dtype != "int8":  # to which JAX itself would add 600
        lookups += [lambda x, n: jnp.take(x, n, axis=0, mode="fill"), lambda x, n: x.at[n].add(1.0)]
        lookups += [lambda x, n: x.at[n].get(mode="promise_in_bounds")]
    for look_up in lookups:
        operators = read_step(look_up, (table, indices)).graph.operators
        (name,) = (operator.name for operator in operators if re.search("gather|scatter", operator.name))
        made = tofu.jax.partition(look_up, 2, (table, indices), hints={name: "v0"})
        np.testing.assert_array_equal(made(table, indices), jax.jit(look_up)(table, indices))


@pytest.mark.parametrize("workers", [2, 3])
def test_zeros_that_are_looked_up_keep_their_sign(workers):
    """XLA adds up what workers find, and -0.0 and 0.0 are 0.0."""
    rows = np.array([3, 6, 9, -2, 0])
    with in_double_precision():
        for dtype in ("float64", "float32"):
            x = jnp.where(jnp.arange(24).reshape(6, 4) % 3 == 0, -0.0, 1.5).astype(dtype)
            for mode in ("fill", "clip"):
                step = lambda x: 1 / x.at[rows].get(mode=mode)  # noqa: E731, B023
                made = tofu.jax.partition(step, workers, (x,), hints={"x": 0, "gather": "v0"})
                np.testing.assert_array_equal(made(x), step(x))


def test_positions_are_counted_before_they_are_rounded():
    """Half precision has 8 or 11 binary digits: a position that was rounded within a part, moved and rounded again, is another number."""
    for dtype, extent in ((jnp.bfloat16, 3000), (jnp.float16, 12000)):

        def count(x, dtype=dtype, extent=extent):
            return lax.iota(dtype, extent), x * 2

        made = tofu.jax.partition(count, 4, (np.ones(8, np.float32),), hints={"iota": "i0"})
        ours, whole = (np.asarray(f(np.ones(8, np.float32))[0], float) for f in (made, jax.jit(count)))
        np.testing.assert_array_equal(ours, whole)


@pytest.mark.parametrize("workers", [2, 3, 6])
def test_fourier_transforms_of_what_was_gathered_along_the_last_dimension(workers):
    x = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)

    @jax.grad
    def step(x):
        return jnp.sum(jnp.abs(jnp.fft.rfftn(x)) ** 2 * jnp.arange(4))

    made = tofu.jax.partition(step, workers, (x,))
    np.testing.assert_allclose(made(x), jax.jit(step)(x), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_several_keys_give_what_they_give_on_one_device(kind):
    """XLA's own generator, that of the last two kinds, draws for all keys from the first of them."""
    keys = jax.random.split(jax.random.key(7, impl=kind), 8)

    def step(keys):
        following = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, 1))[0])(keys)
        return following, jax.vmap(lambda key: jax.random.bits(key, (4,)))(keys)

    made = tofu.jax.partition(step, 4, (keys,))
    for ours, whole in zip(made(keys), jax.jit(step)(keys), strict=True):
        ours, whole = (jax.random.key_data(x) if x.dtype == keys.dtype else x for x in (ours, whole))
        np.testing.assert_array_equal(ours, whole)
