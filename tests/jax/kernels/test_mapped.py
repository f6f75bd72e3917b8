"""A `shard_map` within a step computes what it would on its devices, wherever the plan has it computed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, PartitionSpec

import tofu.jax
from tests.jax.kernels.test_pallas import compare, double, find_kernels, run_tiles
from tofu.errors import UnsupportedError

X = jnp.asarray(np.random.default_rng(0).normal(size=(16, 64)), jnp.float32)
W = jnp.asarray(np.random.default_rng(1).normal(size=(64, 32)), jnp.float32)


def make_mesh(*sizes):
    count = int(np.prod(sizes))
    return Mesh(np.array(jax.devices()[:count]).reshape(sizes), ("x", "y")[: len(sizes)])


def use_collectives(x, w):
    """A product whose sum is over `y`, and neighbours along `x`."""
    h = lax.psum(x @ w, "y")
    everything = lax.all_gather(h, "x", axis=0, tiled=True)
    size = lax.psum(1, "x")
    following = lax.ppermute(h, "x", [(n, (n + 1) % size) for n in range(size)])
    swapped = lax.all_to_all(h, "x", 1, 0, tiled=True)
    total = lax.psum_scatter(everything, "x", scatter_dimension=0, tiled=True)
    return (
        h + following * (lax.axis_index("x") + 1),
        lax.pmean(everything.sum(0), "x") + lax.pmax(lax.stop_gradient(swapped).max(), "x"),
        total,
    )


@pytest.mark.parametrize("is_checked", [True, False])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (2, 2), (4, 2)])
def test_collectives(sizes, is_checked):
    mesh, (x, y) = make_mesh(*sizes), ("x", "y")
    specs = (PartitionSpec(x, y), PartitionSpec(y)), (PartitionSpec(x), PartitionSpec(), PartitionSpec(x))
    mapped = jax.shard_map(use_collectives, mesh=mesh, in_specs=specs[0], out_specs=specs[1], check_vma=is_checked)
    loss = lambda x, w: sum(jnp.mean(jnp.sin(one)) for one in mapped(x, w)[::2])  # noqa: E731
    compare(lambda x, w: (mapped(x, w), jax.grad(loss, (0, 1))(x, w)), 4, X, W)


def test_dimensions_that_two_axes_divide_and_others_that_none_does():
    mesh = make_mesh(2, 2)
    body = lambda x: x * (2 * lax.axis_index("y") + lax.axis_index("x"))  # noqa: E731
    spec = PartitionSpec(("y", "x"), None)
    compare(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec), 4, X)


def test_a_kernel_in_it():
    rows = (2, 64), lambda i: (i, 0)
    tiles = run_tiles(double, (4,), [rows], rows, (8, 64))
    spec = PartitionSpec("x")
    mapped = jax.shard_map(tiles, mesh=make_mesh(2), in_specs=spec, out_specs=spec, check_vma=False)
    (kernel,) = find_kernels(mapped, X)
    assert str(kernel.rule) == "grid0 (grid1 2) _ -> grid0 (grid1 2) _"
    compare(lambda x: mapped(jnp.sin(x)), 4, X)


def loop(x):
    carried, _ = lax.scan(lambda c, _: (jnp.sin(c) * lax.pmax(1.0, "x"), None), x, None, length=3)
    return jax.nn.relu(carried) + jnp.where(x > 0, x, jax.jit(lambda x: x * 2)(x))


@pytest.mark.parametrize("count", [1, 2])
def test_one_in_a_described_function_runs_on_each_worker(count):
    spec = PartitionSpec("x")
    mapped = jax.shard_map(loop, mesh=make_mesh(count), in_specs=spec, out_specs=spec, check_vma=False)
    described = tofu.jax.describe("b _ -> b _", name="described")(mapped)
    made = compare(lambda x: jax.grad(lambda x: jnp.sum(described(jnp.tanh(x)) ** 2))(x), 2, X)
    assert made.plan.operators["described"] == ("b",)


def test_one_in_a_loop_of_unknown_length():
    """Every worker computes such a loop whole."""
    spec = PartitionSpec("x")
    mapped = jax.shard_map(lambda x: x * 2, mesh=make_mesh(2), in_specs=spec, out_specs=spec)
    compare(lambda x: lax.while_loop(lambda x: jnp.max(x) < 100, mapped, x) + 1, 4, X)


def test_what_cannot_be_read_is_named():
    """A call of a library that has no rule for batches."""
    call = jax.ffi.ffi_call("no_such_library", jax.ShapeDtypeStruct((8, 64), jnp.float32))
    spec = PartitionSpec("x")
    step = lambda count: jax.shard_map(call, mesh=make_mesh(count), in_specs=spec, out_specs=spec, check_vma=False)  # noqa: E731
    with pytest.raises(
        UnsupportedError, match=r"The shard_map at .* cannot be read(.|\n)*Write its body for one device"
    ):
        tofu.jax.partition(step(2), 2, (X,))
