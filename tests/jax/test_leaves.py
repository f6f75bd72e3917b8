import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tofu.jax
from tofu.errors import ShapeError, UnsupportedError

WEIGHT = jnp.asarray(np.random.default_rng(0).normal(size=(64, 64)), jnp.float32)


def step(state, x, mode="train"):
    assert state["name"] == "dense"
    rate = 0.1 if mode == "train" else 0.0
    weight = state["weight"] + rate * state["activation"](x @ state["weight"])
    return {**state, "weight": weight, "seen": state["seen"] + 1}, (mode, state["seen"].sum())


def make_state(activation=jax.nn.relu):
    return {"weight": WEIGHT, "activation": activation, "name": "dense", "seen": jnp.zeros((0, 3)), "none": None}


@pytest.mark.parametrize("activation", [jax.nn.relu, functools.partial(jax.nn.leaky_relu, negative_slope=0.2)])
def test_functions_and_texts_are_static(activation):
    state = make_state(activation)
    made = tofu.jax.partition(step, 4, (state, WEIGHT, "test"), hints={"state/weight": 1})
    placed = made.place(state)
    assert placed["weight"].addressable_shards[0].data.shape == (64, 16)
    assert placed["activation"] is activation
    assert placed["seen"].shape == (0, 3)
    after, (mode, seen) = made(placed, WEIGHT, "test")
    wanted, _ = step(state, WEIGHT, "test")
    assert jax.tree.structure(after) == jax.tree.structure(wanted)
    assert (after["activation"], after["name"], mode, float(seen)) == (activation, "dense", "test", 0.0)
    np.testing.assert_allclose(after["weight"], wanted["weight"], rtol=1e-5)
    assert after["weight"].sharding == placed["weight"].sharding
    assert made.lower(after, WEIGHT, "test").compile() is not None
    pairs = jax.tree.map(lambda leaf, sharding: (leaf, sharding), state, made.shardings[0])
    assert (pairs["activation"], pairs["weight"][1]) == ((activation, activation), placed["weight"].sharding)
    assert pairs["seen"][1].is_fully_replicated


def test_numbers_that_a_step_branches_on_are_static():
    def step(state, x):
        return {**state, "weight": state["weight"] * (2 if state["doubled"] else 1)}, jnp.where(x, 1, 0)

    state = {"weight": WEIGHT, "doubled": True}
    made = tofu.jax.partition(step, 2, (state, False))
    after, _ = made(made.place(state), False)
    assert after["doubled"] is True
    np.testing.assert_array_equal(after["weight"], 2 * WEIGHT)
    other = made.also(
        lambda state, x: state["weight"].sum() * (0 if state["doubled"] else x), ({**state, "doubled": False}, 3.0)
    )
    assert float(other({**state, "doubled": False}, 3.0)) == pytest.approx(3 * float(WEIGHT.sum()), rel=1e-4)
    with pytest.raises(ShapeError, match=r"state/doubled is False, and True is part of the step\. x is .* constant"):
        made({**state, "doubled": False}, True)
    as_array = tofu.jax.partition(lambda x, y: jnp.where(x, y, 0).sum(), 2, (True, WEIGHT))
    assert (float(as_array(True, WEIGHT)) != 0, float(as_array(False, WEIGHT))) == (True, 0)


def test_other_functions_and_texts_are_refused():
    made = tofu.jax.partition(step, 2, (make_state(), WEIGHT, "test"))
    for given, changed in [
        ((make_state(jnp.tanh), WEIGHT, "test"), "state/activation is tanh, and relu is part of the step"),
        ((make_state(), WEIGHT, "train"), "mode is 'train', and 'test' is part of the step"),
    ]:
        with pytest.raises(ShapeError, match=rf"planned for other arguments\. {changed}\. So the step would .*\. Call"):
            made(*given)


@pytest.mark.parametrize(
    ("planned", "given", "is_same"),
    [(1, 1.0, True), (0.0, -0.0, False), (1.0, np.float64(1), True), (float("nan"), 1.0, False)],
)
def test_numbers_of_another_type_are_accepted_if_the_program_is_the_same(planned, given, is_same):
    def step(x, number):
        assert isinstance(number, (int, float))
        return x * np.copysign(number, number), number

    made = tofu.jax.partition(step, 2, (WEIGHT, planned))
    np.testing.assert_equal(made(WEIGHT, planned)[1], planned)
    if is_same:
        assert type(made(WEIGHT, given)[1]) is type(given)
    else:
        with pytest.raises(ShapeError, match=r"number is .*, and .* is part of the step\. .* mul has the constant"):
            made(WEIGHT, given)


def test_arguments_may_be_passed_by_name():
    wanted = step(make_state(), WEIGHT)[0]["weight"]
    for made in (tofu.jax.partition(step, 2, (make_state(), WEIGHT)), tofu.jax.partition(step, 2)):
        np.testing.assert_allclose(made(make_state(), x=WEIGHT)[0]["weight"], wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(made(x=WEIGHT, state=make_state())[0]["weight"], wanted, rtol=1e-5, atol=1e-5)
        with pytest.raises(UnsupportedError, match=r"do not match the step.s parameters: missing .*'state'"):
            made(x=WEIGHT)
    keyword = tofu.jax.partition(lambda x, *, rate: x * rate, 2)
    with pytest.raises(UnsupportedError, match=r"rate can be given to the step by name alone\. .*functools\.partial"):
        keyword(WEIGHT, rate=2.0)


def test_other_leaves_are_refused():
    class OpaqueModule:
        """Stand for a module of flax.nnx, whose arrays JAX does not see."""

    with pytest.raises(
        UnsupportedError, match=r"use nnx\.split.*\n  - state/0 is of type .*Module\n  - x is of type numpy"
    ):
        tofu.jax.partition(lambda state, x: state, 2, ([OpaqueModule(), WEIGHT], np.array(["a", None])))


def test_a_state_that_changes_its_types_gives_a_warning():
    narrow = lambda state: {name: value.astype("bfloat16") for name, value in state.items()}  # noqa: E731
    with pytest.warns(UserWarning, match=r"types of its state \(state/bias, from float32 to bfloat16, state/weight"):
        tofu.jax.partition(narrow, 2, ({"weight": WEIGHT, "bias": WEIGHT[0]},))
