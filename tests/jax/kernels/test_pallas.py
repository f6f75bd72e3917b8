import warnings

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tofu.jax
from tests.jax.comparison import check_step
from tests.jax.kernels.attention import make_attention, make_step, plain_attention
from tests.jax.kernels.tiles import double, find_kernels, run_tiles
from tofu.errors import UnsupportedError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from jax.experimental.pallas.ops.tpu import flash_attention as tpu_attention
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask


def find_axes(made):
    return {axis for name, axes in made.plan.operators.items() if "pallas_call" in name for axis in axes}


def test_flash_attention_moves_as_much_as_plain_attention():
    step, *arguments = make_step(make_attention(), heads=8)
    made = check_step(step, 8, *arguments)
    assert find_axes(made) <= {"grid0", "grid1"}
    plain, *_ = make_step(plain_attention, heads=8)
    assert made.plan.communication_bytes == tofu.jax.partition(plain, 8, arguments).plan.communication_bytes


def test_attention_for_tpus_from_jax_is_split_by_batch_and_heads():
    q = jax.ShapeDtypeStruct((2, 4, 256, 128), jnp.float32)
    loss = lambda *x: tpu_attention.flash_attention(*x, causal=True).sum()  # noqa: E731
    forward, *backward = find_kernels(jax.grad(loss, (0, 1, 2)), q, q, q)
    own = "grid0 grid1 _ _"
    assert str(forward.rule) == f"{', '.join([own] * 3)} -> {', '.join([own] * 3)}"
    assert [kernel.rule.axes for kernel in backward] == [("grid0", "grid1")] * 2
    assert tofu.jax.partition(loss, 8, (q, q, q)).plan.workers == 8


def test_splash_attention_is_split_by_the_batch():
    masks = splash_attention_mask.CausalMask((256, 256)), splash_attention_mask.LocalMask((256, 256), (64, 64), 0)
    mask = splash_attention_mask.MultiHeadMask(masks)  # two different masks: JAX merges equal ones
    kernel = splash_attention_kernel.make_splash_mha_single_device(mask)
    q = jax.ShapeDtypeStruct((4, 2, 256, 128), jnp.float32)
    found = find_kernels(jax.grad(lambda *x: jax.vmap(kernel)(*x).sum(), (0, 1, 2)), q, q, q)
    assert [kernel.rule.axes for kernel in found] == [("grid0",)] * 3


def shift(x, out):
    out[...] = x[...] + pl.program_id(1)


TILES = (2, 3), lambda i, j: (i, j)
JOINED = lambda a, b, j: (a * 2 + b, j)  # noqa: E731
X = jnp.arange(96.0).reshape(8, 12)


@pytest.mark.parametrize(
    ("body", "grid", "specs", "out", "rule"),
    [
        (double, (4, 4), [TILES], TILES, "(grid0 2) (grid1 3) -> (grid0 2) (grid1 3)"),
        (shift, (4, 4), [TILES], TILES, "(grid0 2) _ -> (grid0 2) _"),
        (double, (16,), [((2, 3), lambda n: (n // 4, n % 4))], ((2, 3), lambda n: (n // 4, n % 4)), "(grid0 2) _ -> (grid0 2) _"),
        (double, (2, 2, 4), [((2, 3), JOINED)], ((2, 3), JOINED), "(grid0 4) (grid2 3) -> (grid0 4) (grid2 3)"),
        (double, (4, 4), [((2, 3), lambda i, j: (3 - i, j))], TILES, "_ (grid1 3) -> _ (grid1 3)"),
        (double, (4, 4), [((2, 3), lambda i, j: (jnp.minimum(i, 2), j))], TILES, "_ (grid1 3) -> _ (grid1 3)"),
        (double, (4, 4), [((2, 3), lambda i, j: (0 * i, j))], TILES, "_ (grid1 3) -> _ (grid1 3)"),
        (double, (4, 5), [TILES], TILES, "(grid0 2) _ -> (grid0 2) _"),
    ],
)  # fmt: skip
def test_split_rules_follow_from_the_index_maps(body, grid, specs, out, rule):
    function = run_tiles(body, grid, specs, out)
    (kernel,) = find_kernels(function, X)
    assert str(kernel.rule) == rule
    step = lambda x: function(jnp.sin(x))  # noqa: E731
    (name,) = (n for n in tofu.jax.partition(step, 2, (X,)).plan.operators if "pallas_call" in n)
    for axis in kernel.rule.axes:
        assert axis in find_axes(check_step(step, 2, X, hints={name: axis}))


def test_three_query_heads_share_one_key_head():
    def body(x, y, out):
        out[...] = x[...] * y[...]

    specs = [((1, 12), lambda h: (h, 0)), ((1, 12), lambda h: (h // 3, 0))]
    function = run_tiles(body, (6,), specs, specs[0], (6, 12))
    arrays = X[:6], X[:2] + 1
    (kernel,) = find_kernels(function, *arrays)
    assert str(kernel.rule) == "(grid0 3) _, grid0 _ -> (grid0 3) _"
    check_step(lambda x, y: function(x * 2, y), 2, *arrays, hints={"body/pallas_call": "grid0"})


def read_index(x, out):
    out[...] = x[...] * pl.program_id(0)


ROWS = (2, 12), lambda i: (i, 0)


@pytest.mark.parametrize(
    ("body", "grid", "spec", "out", "reason"),
    [
        (read_index, (4,), ROWS, ROWS, "axis 0 of the grid (4): the body reads its position or its size"),
        (double, (4,), ROWS, ((2, 12), lambda i: (0, 0)), "no dimension of result 0 follows it"),
        (double, (4,), ((2, 12), lambda i: (0, 0)), ROWS, "no dimension of an operand follows it"),
        (double, (4,), ((2, 12), lambda i: (3 - i, 0)), ROWS, "shape (8, 12) do not follow it one after the other"),
        (double, (4,), ((2, 3), lambda i: (i, i)), ((2, 3), lambda i: (i, i)), "two dimensions of an array"),
        (double, (3,), ROWS, ROWS, "its blocks do not make up dimension 0"),
        (double, (), ((8, 12), lambda: (0, 0)), ((8, 12), lambda: (0, 0)), "it has no grid"),
    ],
)
def test_a_kernel_that_cannot_be_split_is_named(body, grid, spec, out, reason):
    function = run_tiles(body, grid, [spec], out)
    with pytest.raises(UnsupportedError) as found:
        tofu.jax.partition(lambda x: function(jnp.sin(x)), 2, (X,))
    message = str(found.value)
    assert reason.lower() in message.lower()
    assert f"the Pallas kernel {body.__name__} at " in message
    assert "tiles.py:" in message
    assert "@tofu.jax.describe(" in message
    tofu.jax.partition(lambda x: function(jnp.sin(x)), 2, (X,), undescribed="replicate")


def accumulate(x, out, total):
    """Accumulate along the last axis of the grid, whose first position resets the sums."""

    @pl.when(pl.program_id(1) == 0)
    def _():
        total[...] = jnp.zeros_like(total)

    total[...] += x[...]
    out[...] = total[...]


@pytest.mark.parametrize(
    ("block", "rule"),
    [(lambda i, j: (i, j), "(grid0 2) _ -> (grid0 2) _"), (lambda i, j: (j, i), "_ (grid0 3) -> _ (grid0 3)")],
)
def test_scratch_that_is_reset_along_an_axis_allows_its_split(block, rule):
    function = run_tiles(
        accumulate, (4, 4), [((2, 3), block)], ((2, 3), block), scratch_shapes=[pltpu.VMEM((2, 3), jnp.float32)]
    )
    (kernel,) = find_kernels(function, X)
    assert str(kernel.rule) == rule
    check_step(lambda x: function(jnp.sin(x)), 2, X)


def test_scratch_that_is_carried_along_an_axis_forbids_its_split():
    """Reset the scratch memory along the first axis only, so that its values are carried along the last axis."""

    def body(x, out, total):
        accumulate(x, out, total)

    specs = [((1, 2, 3), lambda a, b, c: (a, b, c))]
    function = run_tiles(
        body, (2, 2, 4), specs, specs[0], (2, 4, 12), scratch_shapes=[pltpu.VMEM((1, 2, 3), jnp.float32)]
    )
    (kernel,) = find_kernels(function, X.reshape(2, 4, 12))
    assert kernel.rule.axes == ("grid0",)


def test_blocks_chosen_at_run_time_are_not_split():
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4, 4),
        in_specs=[pl.BlockSpec((2, 3), lambda i, j, order: (order[i], j))],
        out_specs=pl.BlockSpec((2, 3), lambda i, j, order: (i, j)),
    )
    call = pl.pallas_call(
        lambda order, x, out: double(x, out),
        grid_spec=spec,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )
    order = jnp.asarray([2, 0, 3, 1])
    (kernel,) = find_kernels(call, order, X)
    assert str(kernel.rule) == "_, _ (grid1 3) -> _ (grid1 3)"
    check_step(lambda order, x: call(order, jnp.sin(x)), 2, order, X)


def test_results_may_overwrite_operands():
    function = run_tiles(double, (4, 4), [TILES], TILES, input_output_aliases={0: 0})
    (kernel,) = find_kernels(function, X)
    assert kernel.rule.axes == ("grid0", "grid1")
    check_step(lambda x: function(jnp.sin(x)), 4, X)


@pytest.mark.parametrize("axis", ["grid0", "grid1"])
def test_flash_attention_under_vmap(axis):
    attention = make_attention()
    head = lambda q, k, v: attention(q[None], k[None], v[None])[0]  # noqa: E731
    step, *arguments = make_step(jax.vmap(head))
    (name, *_) = (n for n in tofu.jax.partition(step, 2, arguments).plan.operators if "_forward_kernel" in n)
    axis = {"grid0": "grid0", "grid1": "grid2"}[axis]
    assert axis in find_axes(check_step(step, 4, *arguments, hints={name: axis}))
