"""Equations that are said by others as a step is read: the results are those of the step, and what they replace is gone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import Primitive
from jax.interpreters import mlir

import tofu.jax
from tofu.errors import UndescribedOperatorError, UnsupportedError
from tofu.jax.frontend import rewriting
from tofu.jax.frontend.trace import trace_step

X = jnp.asarray(np.random.default_rng(0).normal(size=(256, 256)), jnp.float32)


def compare(step, *arguments):
    """The names of the primitives of a step that runs on 4 devices as on one."""
    made = tofu.jax.partition(step, 4, arguments)
    for ours, theirs in zip(jax.tree.leaves(made(*arguments)), jax.tree.leaves(step(*arguments)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-3)
    return {equation.primitive.name for equation in trace_step(step, arguments)[0].walk()}


def test_what_is_written_or_read_whole_is_neither_scattered_nor_gathered():
    """`x.at[...].set(y)`, as flax.nnx writes to variables: its indices have no cells."""

    def step(x, y):
        written = x.at[...].set(y), y.at[...].multiply(x), y.at[...].add(2.0), x.at[...].max(y), x.at[...].min(y)
        count = jnp.zeros(()).at[...].set(x[0, 0]), jnp.zeros(()).at[...].add(1.0)
        return written, count, x.at[...].get() * 2

    assert not any(name.startswith(("scatter", "gather")) for name in compare(step, X, X.T))


def test_what_has_no_cells_is_left_out():
    def step(x):
        none = x[:0]
        joined = jnp.concatenate([none, x[:32], jnp.tanh(none), x[32:]]) + jnp.concatenate([none, x])
        written = lax.dynamic_update_slice(x, none, (0, 0)) + x.at[jnp.zeros((0,), int)].add(1.0)
        numbers = (
            none.sum(),
            jnp.prod(none),
            (none.T @ none).sum(),
            jnp.pad(none, ((2, 2), (0, 0)), constant_values=3.0),
        )
        _, scanned = lax.scan(lambda carry, line: (carry, line * 2), x[0], none)
        kept, cells = lax.scan(lambda carry, line: (carry, line[:0]), x[0], x)
        pieces = jnp.split(x, [0, 16, 16])[1] * 2, jnp.split(x, [64, 64])[0] * 3, jnp.roll(x, 0, 0) * 4
        scans = lax.associative_scan(jnp.add, x), jax.grad(lambda x: jnp.sin(lax.associative_scan(jnp.add, x)).sum())(x)
        return joined, written, numbers, kept, pieces, scans, scanned.sum(), cells.sum()

    made = compare(step, X)
    assert made.isdisjoint({"scatter-add", "dynamic_update_slice"})


def test_what_has_no_cells_and_cannot_be_left_out_is_named():
    def step(x):
        return x * lax.while_loop(lambda c: c[1] < x[0, 0], lambda c: (c[0], c[1] + 1), (x[:0], 0.0))[1]

    with pytest.raises(
        UnsupportedError,
        match=r"have no elements.*\n  - \S+ has shape \(0, 256\); \S+ at .*test_rewriting\.py:\d+ reads it",
    ):
        tofu.jax.partition(step, 2, (X,))


def test_sums_along_axes_that_vmap_named():
    """As batch normalization has them that runs under `jax.vmap`."""

    def normalize(x):
        mean = lax.pmean(x, "batch")
        return (x - mean) / (lax.pmax(x, "batch") - lax.pmin(x, "batch")) + lax.psum(1.0, "batch")

    assert compare(jax.vmap(normalize, axis_name="batch"), X).isdisjoint({"psum", "pmax", "pmin"})


def test_what_divides_its_work_over_devices_is_refused_or_computed():
    step = lambda x: jax.pmap(lambda x: x * 2)(x) + 1  # noqa: E731
    if all(equation.primitive.name != "xla_pmap" for equation in jax.make_jaxpr(step)(X[:2]).eqns):
        compare(step, X[:2])  # later versions of JAX write it as a `shard_map`
        return
    with pytest.raises(UnsupportedError, match=r"pmap at .*test_rewriting\.py:\d+ divides its work over devices by"):
        tofu.jax.partition(step, 2, (X[:2],))


def test_a_function_of_all_cells_is_computed_of_them():
    """`apply`, too, is a scatter of updates, which it does not read."""
    step = lambda x: x.at[...].apply(lambda cell: jnp.sin(cell) + 2) * x[0, 0].at[...].apply(jnp.exp)  # noqa: E731
    assert {"sin", "exp"} < compare(step, X)
    compare(lambda x: x.at[:, :].apply(lambda cell: cell) + x.at[1].apply(jnp.cos), X)


def test_numbers_where_a_description_has_tensors():
    def step(x):
        return x.reshape(-1)[:1].at[0].add(1.0) + jax.random.gamma(jax.random.key(0), 2.0) + x

    compare(step, X)


@pytest.mark.parametrize("choose", [jnp.maximum, jnp.minimum])
def test_which_of_two_was_chosen_is_asked_of_the_two(choose):
    """Not of what was chosen: of a variance, say, that XLA computes again in another kernel it may differ by a rounding, and its gradient
    would be zero. Ties are halved, and what is no number is none of both, as on one device."""
    x, y = (
        jnp.array(row) for row in zip(*((1.0, 2.0), (2.0, 1.0), (3.0, 3.0), (0.0, -0.0), (np.nan, 1.0)), strict=True)
    )

    def step(x, y):
        scale = lambda x, y: choose(x * 3, y * 3).sum() + choose(0.0, x).sum() + choose(x, 1.5).sum()  # noqa: E731
        chosen = jnp.maximum(x.astype(int), 2)
        return *jax.grad(scale, (0, 1))(x, y), chosen == x.astype(int)

    traced, made_by, compared = trace_step(step, (x, y))[0], {}, []
    for equation in traced.walk():
        if equation.primitive.name == "eq":
            compared.append({made_by.get(operand) for operand in equation.inputs if isinstance(operand, int)})
        made_by.update(
            dict.fromkeys(equation.outputs, (equation.primitive.name, traced.types[equation.outputs[0]].dtype))
        )
    chosen = [name for operands in compared for name in operands if name and name[0] in ("max", "min")]
    assert chosen == [("max", x.astype(int).dtype)]  # of whole numbers
    made = tofu.jax.partition(step, 5, (x, y))
    jax.tree.map(np.testing.assert_array_equal, made(x, y), jax.jit(step)(x, y))


PADDED = ((1, 2, 1), (-1, 3, 2))


@pytest.mark.parametrize(
    "step",
    [
        lambda x: lax.pad(x, np.float32(1.5), PADDED),
        lambda x: lax.pad(x, x[3, 4], PADDED),
        lambda x: lax.pad(x, jnp.max(x), ((2, 2, 0), (0, 0, 0))),
        lambda x: jnp.abs(lax.pad(x.astype(jnp.complex64), np.complex64(2j), PADDED)),
        lambda x: lax.pad((9 * x).astype(int), jnp.sum(x).astype(int), PADDED),
        jax.grad(lambda x: jnp.sum(jnp.sin(lax.pad(x, x[3, 4], PADDED)))),
        jax.grad(lambda x: jnp.sum(jnp.sin(lax.pad(x, np.float32(1.5), ((0, 0, 3), (-5, -6, 0)))))),
    ],
)
def test_a_pad_with_any_number_is_a_choice_between_the_number_and_zeros(step):
    compare(step, X)


def make_primitive(implementation):
    """One of another library, of a result like its operand."""
    primitive = Primitive("of_another_library")
    primitive.def_impl(implementation)
    primitive.def_abstract_eval(lambda x, **_: x)
    lowered = mlir.lower_fun(lambda x, **params: jnp.cumsum(x * params["scale"], 1), multiple_results=False)
    mlir.register_lowering(primitive, lowered)
    return primitive


def test_a_primitive_of_another_library_is_split_as_its_implementation():
    """As those of equinox (`nonbatchable`, `unvmap_any`), which diffrax's loops have in them."""
    primitive = make_primitive(lambda x, *, scale: jnp.cumsum(x * scale, 1))
    names = compare(lambda x: primitive.bind(x, scale=2.0) @ x, X)
    assert "cumsum" in names
    assert "of_another_library" not in names


def test_a_primitive_that_computes_with_numbers_wants_a_description():
    primitive = make_primitive(lambda x, *, scale: np.cumsum(np.asarray(x) * scale, 1))
    with pytest.raises(UndescribedOperatorError, match="of_another_library"):
        tofu.jax.partition(lambda x: primitive.bind(x, scale=2.0), 2, (X,))
    itself = Primitive("itself")
    itself.def_impl(lambda x: itself.bind(x))
    itself.def_abstract_eval(lambda x: x)
    with pytest.raises(UndescribedOperatorError, match="itself"):
        tofu.jax.partition(lambda x: itself.bind(x), 2, (X,))


def train_offloaded(weights, x):
    """A step whose residuals a checkpoint policy moves to the host."""
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["h"], offload_src="device", offload_dst="pinned_host"
    )

    def layer(h, weight):
        h = checkpoint_name(jnp.tanh(h @ weight), "h")
        return h + jnp.sin(h), None

    def loss(weights):
        return jnp.mean(lax.scan(jax.checkpoint(layer, policy=policy), x, weights)[0] ** 2)

    return weights - 0.1 * jax.grad(loss)(weights)


LAYERS = jnp.linspace(-1, 1, 4 * 24 * 24).reshape(4, 24, 24)


def test_transfers_to_a_kind_of_memory_are_kept(monkeypatch):
    monkeypatch.setattr(rewriting, "has_kinds_of_memory", lambda: True)
    made = tofu.jax.partition(train_offloaded, 2, (LAYERS, jnp.ones((12, 24))))
    ours, theirs = (
        str(jax.make_jaxpr(f)(LAYERS, jnp.ones((12, 24)))).count("device_put[") for f in (made, train_offloaded)
    )
    assert ours == theirs > 0


def test_devices_with_one_kind_of_memory_offload_nothing_with_a_warning(monkeypatch):
    monkeypatch.setattr(rewriting, "has_kinds_of_memory", lambda: False)
    with pytest.warns(UserWarning, match=r"memory that jax.device_put names at .*test_rewriting.py:\d+ is left out"):
        made = tofu.jax.partition(train_offloaded, 2, (LAYERS, jnp.ones((12, 24))))
    np.testing.assert_allclose(made(LAYERS, jnp.ones((12, 24))), train_offloaded(LAYERS, jnp.ones((12, 24))), rtol=1e-5)


def test_a_device_within_a_step_is_left_out_with_a_warning():
    far = jax.devices()[1]
    with pytest.warns(
        UserWarning, match=r"device or sharding of jax.device_put at .*test_rewriting.py:\d+ is left out"
    ):
        made = tofu.jax.partition(lambda x: jax.device_put(x * 2, far) + 1, 2, (jnp.ones((8, 8)),))
    np.testing.assert_array_equal(made(jnp.ones((8, 8))), np.full((8, 8), 3.0))
