"""Steps over the state of another one, and steps that are planned when they are first called."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tofu.jax
from tests.models.jax.plain import STEPS
from tofu.errors import DeviceError, PlanError, ShapeError, UnsupportedError


def evaluate(state, data):
    x, labels = data
    for layer in state[0][:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    x = x @ state[0][-1]["w"] + state[0][-1]["b"]
    return (x.argmax(-1) == labels).mean(), x


def make_level(workers):
    return {"workers": workers, "bytes_per_second": 1e9}


@pytest.mark.parametrize(
    ("workers", "options"), [(4, {}), (6, {}), (6, {"topology": [make_level(2), make_level(3)]}), (8, {})]
)
def test_another_step_reads_the_state_where_it_lies(workers, options):
    """Whatever the order of the steps that the first plan has, and without moving any of the state between two calls."""
    step, state, data = STEPS["perceptron"](jnp.float32)
    train = tofu.jax.partition(step, workers, (state, data), search_seconds=1, **options)
    other = data[0][:24], data[1][:24]
    test = train.also(evaluate, (state, other), search_seconds=1)
    assert test.mesh == train.mesh
    assert test.plan.factors == train.plan.factors
    assert jax.tree.leaves(test.shardings[0]) == jax.tree.leaves(train.shardings[0])
    placed, _ = train(train.place(state), data)
    accuracy, logits = test(placed, other)
    after, _ = jax.jit(step)(state, data)
    wanted, wanted_logits = jax.jit(evaluate)(after, other)
    assert float(accuracy) == float(wanted)
    np.testing.assert_allclose(logits, wanted_logits, rtol=2e-5, atol=2e-5)


def test_a_part_of_the_state():
    step, state, data = STEPS["perceptron"](jnp.float32)
    train = tofu.jax.partition(step, 4, (state, data), hints={"state/0/1/w": 0})
    sample = train.also(lambda layers, x: x @ layers[1]["w"], (state[0], data[0]), part=lambda state: state[0])
    assert sample.plan.tensors["layers/1/w"] == train.plan.tensors["state/0/1/w"] == (0, 0)
    np.testing.assert_allclose(sample(train.place(state)[0], data[0]), data[0] @ state[0][1]["w"], rtol=1e-4, atol=1e-4)


def test_hints_that_lay_out_the_state_otherwise_are_refused():
    step, state, data = STEPS["perceptron"](jnp.float32)
    train = tofu.jax.partition(step, 4, (state, data), hints={"state/0/1/w": 0})
    for same in (0, (0, 0)):
        train.also(evaluate, (state, data), hints={"state/0/1/w": same})
    with pytest.raises(PlanError, match=r"its layout from step.*\n  - state/0/1/w is split along \(0, 0\)"):
        train.also(evaluate, (state, data), hints={"state/0/1/w": 1})
    with pytest.raises(PlanError, match="hints= maps names to dimensions or axes"):
        train.also(evaluate, (state, data), hints=3)


def test_its_plan_is_saved_and_given_again():
    step, state, data = STEPS["perceptron"](jnp.float32)
    train = tofu.jax.partition(step, 4, (state, data))
    first = train.also(evaluate, (state, data))
    again = train.also(evaluate, (state, data), plan=first.plan.to_json())
    assert again.plan.tensors == first.plan.tensors
    elsewhere = tofu.jax.partition(
        evaluate, 4, (state, data), hints={"state/0/0/w": train.plan.tensors["state/0/0/w"][0] ^ 1}
    )
    with pytest.raises(PlanError, match="The plan and the hints contradict each other"):
        train.also(evaluate, (state, data), plan=elsewhere.plan)
    six, turned = (
        tofu.jax.partition(evaluate, 6, (state, data), topology=list(map(make_level, levels)), search_seconds=1)
        for levels in ((3, 2), (2, 3))
    )
    with pytest.raises(PlanError, match=r"The plan has factors \(2, 3\), and that of evaluate \(3, 2\)"):
        six.also(evaluate, (state, data), plan=turned.plan)
    with pytest.raises(UnsupportedError, match="topology= cannot differ from evaluate"):
        six.also(evaluate, (state, data), topology=[1e9])


def test_another_state_is_refused():
    step, state, data = STEPS["perceptron"](jnp.float32)
    train = tofu.jax.partition(step, 2, (state, data))
    with pytest.raises(ShapeError, match=r"If it is a part of the state, pick that: part=lambda state"):
        train.also(evaluate, (state[:1], data))
    wider = jax.tree.map(lambda x: jnp.concatenate([x, x]), state[0])
    with pytest.raises(
        ShapeError, match=r"layers/0/b is float32 of shape \(320,\), and float32 of shape \(160,\) in the state"
    ):
        train.also(lambda layers: layers[0]["w"], (wider,), part=lambda state: state[0])
    halves = jax.tree.map(lambda x: x.astype(jnp.bfloat16), state[0])
    with pytest.raises(ShapeError, match="layers/0/b is bfloat16"):
        train.also(lambda layers: layers[0]["w"], (halves,), part=lambda state: state[0])


def test_a_decorated_step_is_planned_when_it_is_first_called():
    step, state, data = STEPS["convolutions"](jnp.float32)

    @tofu.jax.partition(workers=2, hints={"params/second": 3})
    def train(params, data):
        """A step."""
        return step(params, data)

    assert train.__name__ == "train"
    assert train.__doc__ == "A step."
    assert repr(train) == "<train, which is planned when it is first called>"
    with pytest.raises(UnsupportedError, match=r"call it, or planned\(...\) with arguments"):
        train.planned()
    ours, loss = train(state, data)
    made = train.planned()
    assert made.plan.tensors["params/second"] == (3,)
    assert repr(train) == repr(made)
    theirs, wanted = jax.jit(step)(state, data)
    assert float(loss) == pytest.approx(float(wanted), rel=1e-5)
    again, _ = train(ours, data)
    assert train.planned() is made
    assert jax.tree.structure(again) == jax.tree.structure(theirs)
    with pytest.raises(ShapeError, match=r"and the step was planned for \(24, 16, 16, 8\)"):
        train(ours, tuple(x[:12] for x in data))


def test_a_method_is_decorated_and_its_instance_is_the_state():
    @jax.tree_util.register_dataclass
    @dataclass
    class Model:
        weight: jax.Array

        @tofu.jax.partition(workers=2)
        def step(self, x):
            return Model(self.weight * 2), (x @ self.weight).sum()

    weight = jnp.ones((8, 8))
    following, total = Model(weight).step(weight)
    np.testing.assert_array_equal(following.weight, weight * 2)
    assert float(total) == 512
    assert Model.step.planned().plan.tensors["self/weight"] is not None

    class Trainer:
        step = tofu.jax.partition(lambda self, x: x, 2)

    with pytest.raises(UnsupportedError, match=r"self is of type .*Trainer"):
        Trainer().step(weight)


def test_it_is_planned_from_shapes_where_the_state_has_to_be_placed():
    step, state, data = STEPS["convolutions"](jnp.float32)
    train = tofu.jax.partition(step, 2)
    placed = train.planned(*jax.eval_shape(lambda *x: x, state, data)).place(state)
    _, loss = train(placed, data)
    assert float(loss) == pytest.approx(float(jax.jit(step)(state, data)[1]), rel=1e-5)


def test_what_is_no_step_is_said_at_once():
    with pytest.raises(UnsupportedError, match=r"not 8 \(an int\). A decorator is @tofu.jax.partition\(workers=8\)"):
        tofu.jax.partition(8)
    with pytest.raises(DeviceError, match="workers= is missing"):
        tofu.jax.partition(jnp.sin)
    with pytest.raises(DeviceError, match="workers= is missing"):
        tofu.jax.partition(donate_argnums=0)
    with pytest.raises(UnsupportedError, match=r"worker= \(did you mean workers"):
        tofu.jax.partition(worker=8)
    with pytest.raises(UnsupportedError, match="not None"):
        tofu.jax.partition(None, 4, (jnp.ones(8),))


def test_what_a_deferred_step_has_once_it_is_planned_is_said_before():
    step, state, data = STEPS["convolutions"](jnp.float32)
    train = tofu.jax.partition(step, 2)
    with pytest.raises(
        AttributeError, match=r"has no plan before that. Call it, or plan it now: step.planned\(state, batch\).plan"
    ):
        train.plan  # noqa: B018
    made = train.planned(state, data)
    assert train.plan == made.plan
    assert train.mesh == made.mesh
    assert not hasattr(train, "plann")
