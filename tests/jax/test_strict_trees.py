"""Classes of pytrees whose constructors take nothing but arrays: `jax.jit` gives them nothing else, and neither does a planned step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import tofu.jax
from tofu.command_line.main import main
from tofu.errors import ShapeError, UnsupportedError

RANDOM = np.random.default_rng(0)
WEIGHT, BIAS = (jnp.asarray(RANDOM.normal(size=shape), jnp.float32) for shape in ((512, 256), (256,)))
BATCH = tuple(jnp.asarray(RANDOM.normal(size=(64, width)), jnp.float32) for width in (512, 256))


def check(w, b):
    """What users' constructors check."""
    assert isinstance(w, jax.Array)
    assert isinstance(b, jax.Array)
    assert w.shape[1:] == b.shape


@jax.tree_util.register_pytree_node_class
class Registered:
    def __init__(self, w, b):
        check(w, b)
        self.w, self.b = w, b

    def tree_flatten(self):
        return (self.w, self.b), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


class Pair(NamedTuple):
    w: Any
    b: Any


class Named(Pair):
    def __new__(cls, w, b):
        check(w, b)
        return super().__new__(cls, w, b)


@jax.tree_util.register_dataclass
@dataclass
class Data:
    w: Any
    b: Any

    def __post_init__(self):
        check(self.w, self.b)


@jax.tree_util.register_dataclass
@dataclass
class Converted:
    w: Any
    b: Any

    def __post_init__(self):
        self.w, self.b = jnp.asarray(self.w), jnp.asarray(self.b)


@jax.tree_util.register_dataclass
@dataclass
class Functional(Data):
    """With a function among its leaves."""

    activation: Any = jnp.tanh

    def __post_init__(self):
        super().__post_init__()
        assert callable(self.activation)


KINDS = [Registered, Named, Data, Converted, Functional]


def name_weight(kind):
    """Registered without keys, its arrays have numbers."""
    return "params/0" if kind is Registered else "params/w"


def predict(params, x):
    return getattr(params, "activation", jnp.tanh)(x @ params.w + params.b)


def step(params, batch):
    def find_loss(w, b):
        return jnp.mean((predict(Pair(w, b), batch[0]) - batch[1]) ** 2)

    loss, (w, b) = jax.value_and_grad(find_loss, (0, 1))(params.w, params.b)
    return type(params)(params.w - 0.1 * w, params.b - 0.1 * b), loss


def test_the_classes_are_ones_that_jax_calls_and_does_not_map():
    for kind in KINDS[:3]:
        params = kind(WEIGHT, BIAS)
        jax.jit(step)(params, BATCH)
        for use in (
            lambda params=params: jax.tree.map(lambda a: a.shape, params),
            lambda params=params: jax.jit(step).lower(params, BATCH),
        ):
            with pytest.raises(AssertionError):
                use()


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_planned_placed_and_run(kind):
    params = kind(WEIGHT, BIAS)
    wanted, loss = step(params, BATCH)
    made = tofu.jax.partition(step, 4, (params, BATCH), hints={name_weight(kind): 1})
    placed = made.place(params)
    assert isinstance(placed, kind)
    assert placed.w.addressable_shards[0].data.shape == (512, 64)
    after, ours = made(placed, made.place_part(BATCH))
    assert isinstance(after, kind)
    assert after.w.sharding == placed.w.sharding
    np.testing.assert_allclose(after.w, wanted.w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours, loss, rtol=1e-5)
    assert made.memory_report(compile=True).compiled is not None
    with pytest.raises(ShapeError, match=r"Missing: params/.*Not planned for: params/other"):
        made.place({"other": WEIGHT})


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_planned_by_its_first_call(kind):
    params = kind(WEIGHT, BIAS)
    after, _ = tofu.jax.partition(step, 4)(params, BATCH)
    np.testing.assert_allclose(after.w, step(params, BATCH)[0].w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_another_step_reads_the_state_or_a_part_of_it(kind):
    params = kind(WEIGHT, BIAS)
    made = tofu.jax.partition(step, 4, (params, BATCH))
    placed = made.place(params)
    other = made.also(predict, (params, BATCH[0]))
    np.testing.assert_allclose(other(placed, BATCH[0]), predict(params, BATCH[0]), rtol=1e-4, atol=1e-4)
    part = made.also(lambda w, x: x @ w, (WEIGHT, BATCH[0]), part=lambda params: params.w)
    assert part.plan.tensors["w"] == made.plan.tensors[name_weight(kind)]
    with pytest.raises(UnsupportedError, match=r"part= returns a value that is not in the state"):
        made.also(lambda w, x: x @ w, (WEIGHT, BATCH[0]), part=lambda params: params.w + 1)


@pytest.mark.parametrize("kind", [Registered, Named, Data, Converted, Functional])
def test_trees_of_shardings_are_refused_as_jax_refuses_them(kind):
    made = tofu.jax.partition(step, 4, (kind(WEIGHT, BIAS), BATCH))
    for use, what in (
        (lambda: made.shardings, "shardings"),
        (lambda: made.lower(kind(WEIGHT, BIAS), BATCH), r"lower\(\)"),
    ):
        with pytest.raises(
            UnsupportedError, match=rf"{what} is not available, since a pytree class .* \[x\.sharding for"
        ):
            use()
    placed = made.place(kind(WEIGHT, BIAS))
    assert [x.sharding.spec for x in jax.tree.leaves(placed)[:1]] == [placed.w.sharding.spec]


@pytest.mark.parametrize("kind", [Registered, Named, Data, Functional])
def test_unequal_parts_are_refused_with_a_way_out(kind):
    params = kind(WEIGHT, BIAS)
    made = tofu.jax.partition(step, 3, (params, BATCH), hints={name_weight(kind): 1})
    with pytest.raises(UnsupportedError, match=r'accept a tofu\.jax\.UnevenArray.*AssertionError.*uneven="none"'):
        made.place(params)
    whole = tofu.jax.partition(step, 3, (params, BATCH), uneven="none")
    np.testing.assert_allclose(whole(whole.place(params), BATCH)[0].w, step(params, BATCH)[0].w, rtol=1e-5, atol=1e-6)


def test_what_jax_says_of_an_argument_names_its_path():
    """Though the tree of arguments is not what JAX is given."""

    def asks(params, batch):
        return params if params.w.sum() > 0 else None

    with pytest.raises(jax.errors.TracerBoolConversionError, match=r"argument params\.w"):
        tofu.jax.partition(asks, 2, (Data(WEIGHT, BIAS), BATCH))


def test_commands_take_them(tmp_path):
    (tmp_path / "train.py").write_text(
        "from tests.jax.test_strict_trees import BATCH, BIAS, WEIGHT, Data, step\n"
        "def example_args():\n    return Data(WEIGHT, BIAS), BATCH\n"
    )
    for command in ("plan", "memory", "compare"):
        result = CliRunner().invoke(main, [command, str(tmp_path / "train.py:step"), "--workers", "4"])
        assert result.exit_code == 0, result.output
        assert "FSDP" in result.output or command != "compare"


def test_a_class_that_changes_its_arrays_is_made_of_what_it_is_given():
    """`replace` makes another one; nothing is made of placeholders before."""
    seen = []

    @jax.tree_util.register_dataclass
    @dataclass
    class Counted:
        w: Any

        def __post_init__(self):
            seen.append(isinstance(self.w, jax.Array))

    made = tofu.jax.partition(lambda state: replace(state, w=state.w * 2), 2, (Counted(WEIGHT),))
    made(made.place(Counted(WEIGHT)))
    assert set(seen) == {True}
