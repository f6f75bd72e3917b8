"""A `shard_map` within a step has the same results as on the devices that it names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, PartitionSpec

import tofu.jax
from tests.jax.comparison import check_step
from tests.jax.kernels.tiles import double, find_kernels, run_tiles
from tofu.errors import UnsupportedError

X = jnp.asarray(np.random.default_rng(0).normal(size=(16, 64)), jnp.float32)
W = jnp.asarray(np.random.default_rng(1).normal(size=(64, 32)), jnp.float32)


def make_mesh(*sizes):
    count = int(np.prod(sizes))
    return Mesh(np.array(jax.devices()[:count]).reshape(sizes), ("x", "y")[: len(sizes)])


def use_collectives(x, w):
    h = lax.psum(x @ w, "y")
    gathered = lax.all_gather(h, "x", axis=0, tiled=True)
    size = lax.psum(1, "x")
    following = lax.ppermute(h, "x", [(n, (n + 1) % size) for n in range(size)])
    swapped = lax.all_to_all(h, "x", 1, 0, tiled=True)
    total = lax.psum_scatter(gathered, "x", scatter_dimension=0, tiled=True)
    return (
        h + following * (lax.axis_index("x") + 1),
        lax.pmean(gathered.sum(0), "x") + lax.pmax(lax.stop_gradient(swapped).max(), "x"),
        total,
    )


@pytest.mark.parametrize(("sizes", "is_checked"), [((1, 1), True), ((2, 2), True), ((4, 2), False)])
def test_every_collective(sizes, is_checked):
    mesh, (x, y) = make_mesh(*sizes), ("x", "y")
    specs = (PartitionSpec(x, y), PartitionSpec(y)), (PartitionSpec(x), PartitionSpec(), PartitionSpec(x))
    mapped = jax.shard_map(use_collectives, mesh=mesh, in_specs=specs[0], out_specs=specs[1], check_vma=is_checked)
    loss = lambda x, w: sum(jnp.mean(jnp.sin(result)) for result in mapped(x, w)[::2])  # noqa: E731
    check_step(lambda x, w: (mapped(x, w), jax.grad(loss, (0, 1))(x, w)), 4, X, W)


def test_a_dimension_split_by_two_axes_beside_a_replicated_one():
    mesh = make_mesh(2, 2)
    body = lambda x: x * (2 * lax.axis_index("y") + lax.axis_index("x"))  # noqa: E731
    spec = PartitionSpec(("y", "x"), None)
    check_step(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec), 4, X)


def test_a_kernel_within_a_shard_map():
    rows = (2, 64), lambda i: (i, 0)
    tiles = run_tiles(double, (4,), [rows], rows, (8, 64))
    spec = PartitionSpec("x")
    mapped = jax.shard_map(tiles, mesh=make_mesh(2), in_specs=spec, out_specs=spec, check_vma=False)
    (kernel,) = find_kernels(mapped, X)
    assert str(kernel.rule) == "grid0 (grid1 2) _ -> grid0 (grid1 2) _"
    check_step(lambda x: mapped(jnp.sin(x)), 4, X)


def loop(x):
    carried, _ = lax.scan(lambda c, _: (jnp.sin(c) * lax.pmax(1.0, "x"), None), x, None, length=3)
    return jax.nn.relu(carried) + jnp.where(x > 0, x, jax.jit(lambda x: x * 2)(x))


@pytest.mark.parametrize("count", [1, 2])
def test_a_shard_map_in_a_described_function_runs_on_each_worker(count):
    spec = PartitionSpec("x")
    mapped = jax.shard_map(loop, mesh=make_mesh(count), in_specs=spec, out_specs=spec, check_vma=False)
    described = tofu.jax.describe("b _ -> b _", name="described")(mapped)
    made = check_step(lambda x: jax.grad(lambda x: jnp.sum(described(jnp.tanh(x)) ** 2))(x), 2, X)
    assert made.plan.operators["described"] == ("b",)


def test_a_shard_map_in_a_replicated_while_loop():
    spec = PartitionSpec("x")
    mapped = jax.shard_map(lambda x: x * 2, mesh=make_mesh(2), in_specs=spec, out_specs=spec)
    check_step(lambda x: lax.while_loop(lambda x: jnp.max(x) < 100, mapped, x) + 1, 4, X)


def test_a_library_call_without_a_batching_rule_is_refused():
    call = jax.ffi.ffi_call("no_such_library", jax.ShapeDtypeStruct((8, 64), jnp.float32))
    spec = PartitionSpec("x")
    step = lambda count: jax.shard_map(call, mesh=make_mesh(count), in_specs=spec, out_specs=spec, check_vma=False)  # noqa: E731
    with pytest.raises(UnsupportedError, match=r"The shard_map at .* cannot be read(.|\n)*Write its body for one"):
        tofu.jax.partition(step(2), 2, (X,))
