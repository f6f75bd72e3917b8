import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import Primitive
from jax.interpreters import mlir

import tofu.jax
from tests.jax.comparison import check_step
from tofu.errors import UndescribedOperatorError, UnsupportedError
from tofu.jax.frontend import rewriting
from tofu.jax.frontend.trace import trace_step
from tofu.jax.frontend.versions import in_double_precision

X = jnp.asarray(np.random.default_rng(0).normal(size=(256, 256)), jnp.float32)


def list_primitives(step, *arguments):
    check_step(step, 4, *arguments, rtol=1e-4, atol=1e-3)
    return {equation.primitive.name for equation in trace_step(step, arguments)[0].walk()}


def test_whole_writes_and_reads_are_not_scatters():
    """Cover `x.at[...].set(y)`, which flax.nnx uses for its variables."""

    def step(x, y):
        written = x.at[...].set(y), y.at[...].multiply(x), y.at[...].add(2.0), x.at[...].max(y), x.at[...].min(y)
        count = jnp.zeros(()).at[...].set(x[0, 0]), jnp.zeros(()).at[...].add(1.0)
        return written, count, x.at[...].get() * 2

    assert not any(name.startswith(("scatter", "gather")) for name in list_primitives(step, X, X.T))


def test_empty_arrays_are_removed():
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

    made = list_primitives(step, X)
    assert made.isdisjoint({"scatter-add", "dynamic_update_slice"})


def test_empty_arrays_in_while_loops_are_refused():
    def step(x):
        return x * lax.while_loop(lambda c: c[1] < x[0, 0], lambda c: (c[0], c[1] + 1), (x[:0], 0.0))[1]

    with pytest.raises(UnsupportedError, match=r"no elements.*\n  - \S+ has shape \(0, 256\); \S+ at .*\.py:\d+ reads"):
        tofu.jax.partition(step, 2, (X,))


@pytest.mark.parametrize("choose", [jnp.maximum, jnp.minimum])
def test_gradients_of_maximum_compare_the_operands(choose):
    """Compare operands, not the result: XLA may compute the result again with another rounding. Ties are halved."""
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
    check_step(step, 5, x, y, rtol=0, atol=0)


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
def test_pads_with_any_value(step):
    list_primitives(step, X)


def test_pads_in_double_precision():
    with in_double_precision():
        check_step(lambda x: jnp.pad(x, ((1, 2), (0, 1)), constant_values=x.min()), 3, np.ones((11, 6)), rtol=0, atol=0)


@pytest.mark.parametrize(
    "strict_rules", [lambda: jax.numpy_dtype_promotion("strict"), lambda: jax.numpy_rank_promotion("raise")]
)
def test_strict_rules_for_types_and_shapes_hold_for_the_step_alone(strict_rules):
    table, words = np.ones((300, 64), "float32"), np.arange(8, dtype="int32") * 3
    with strict_rules():
        for hints in ({}, {"table": 0}, {"words": 0}):
            check_step(lambda table, words: (table * np.float32(0.9), table[words]), 4, table, words, hints=hints)


def make_primitive(implementation):
    primitive = Primitive("of_another_library")
    primitive.def_impl(implementation)
    primitive.def_abstract_eval(lambda x, **_: x)
    lowered = mlir.lower_fun(lambda x, **params: jnp.cumsum(x * params["scale"], 1), multiple_results=False)
    mlir.register_lowering(primitive, lowered)
    return primitive


def test_primitives_of_libraries_are_split_as_their_implementation():
    """Cover primitives of equinox, which diffrax uses in its loops."""
    primitive = make_primitive(lambda x, *, scale: jnp.cumsum(x * scale, 1))
    names = list_primitives(lambda x: primitive.bind(x, scale=2.0) @ x, X)
    assert "cumsum" in names
    assert "of_another_library" not in names


def test_primitives_implemented_in_numpy_need_a_description():
    primitive = make_primitive(lambda x, *, scale: np.cumsum(np.asarray(x) * scale, 1))
    with pytest.raises(UndescribedOperatorError, match="of_another_library"):
        tofu.jax.partition(lambda x: primitive.bind(x, scale=2.0), 2, (X,))
    itself = Primitive("itself")
    itself.def_impl(lambda x: itself.bind(x))
    itself.def_abstract_eval(lambda x: x)
    with pytest.raises(UndescribedOperatorError, match="itself"):
        tofu.jax.partition(lambda x: itself.bind(x), 2, (X,))


def train_offloaded(weights, x):
    """Run a step whose residuals a checkpoint policy moves to the host."""
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


def test_offloading_is_kept_if_devices_have_memory_kinds(monkeypatch):
    monkeypatch.setattr(rewriting, "has_kinds_of_memory", lambda: True)
    made = tofu.jax.partition(train_offloaded, 2, (LAYERS, jnp.ones((12, 24))))
    ours, theirs = (
        str(jax.make_jaxpr(f)(LAYERS, jnp.ones((12, 24)))).count("device_put[") for f in (made, train_offloaded)
    )
    assert ours == theirs > 0


def test_offloading_is_ignored_with_a_warning_otherwise(monkeypatch):
    monkeypatch.setattr(rewriting, "has_kinds_of_memory", lambda: False)
    with pytest.warns(UserWarning, match=r"memory that jax.device_put names at .*test_rewriting.py:\d+ is left out"):
        made = tofu.jax.partition(train_offloaded, 2, (LAYERS, jnp.ones((12, 24))))
    np.testing.assert_allclose(made(LAYERS, jnp.ones((12, 24))), train_offloaded(LAYERS, jnp.ones((12, 24))), rtol=1e-5)


def test_device_put_is_ignored_with_a_warning():
    far = jax.devices()[1]
    with pytest.warns(UserWarning, match=r"device or sharding of jax.device_put at .*test_rewriting.py:\d+ is left"):
        made = tofu.jax.partition(lambda x: jax.device_put(x * 2, far) + 1, 2, (jnp.ones((8, 8)),))
    np.testing.assert_array_equal(made(jnp.ones((8, 8))), np.full((8, 8), 3.0))
