from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tofu.jax
from tests.models.jax.plain import STEPS
from tofu.errors import PlanError, ShapeError, UnsupportedError


def evaluate(state, data):
    x, labels = data
    for layer in state[0][:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    x = x @ state[0][-1]["w"] + state[0][-1]["b"]
    return (x.argmax(-1) == labels).mean(), x


def make_level(workers):
    return {"workers": workers, "bytes_per_second": 1e9}


@pytest.mark.parametrize(("workers", "options"), [(4, {}), (6, {"topology": [make_level(2), make_level(3)]})])
def test_another_step_reads_the_state_in_place(workers, options):
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


def test_another_step_may_read_a_part_of_the_state():
    step, state, data = STEPS["perceptron"](jnp.float32)
    train = tofu.jax.partition(step, 4, (state, data), hints={"state/0/1/w": 0})
    sample = train.also(lambda layers, x: x @ layers[1]["w"], (state[0], data[0]), part=lambda state: state[0])
    assert sample.plan.tensors["layers/1/w"] == train.plan.tensors["state/0/1/w"] == (0, 0)
    np.testing.assert_allclose(sample(train.place(state)[0], data[0]), data[0] @ state[0][1]["w"], rtol=1e-4, atol=1e-4)


def test_hints_that_contradict_the_placement_of_the_state_are_refused():
    step, state, data = STEPS["perceptron"](jnp.float32)
    train = tofu.jax.partition(step, 4, (state, data), hints={"state/0/1/w": 0})
    for same in (0, (0, 0)):
        train.also(evaluate, (state, data), hints={"state/0/1/w": same})
    with pytest.raises(PlanError, match=r"its layout from step.*\n  - state/0/1/w is split along \(0, 0\)"):
        train.also(evaluate, (state, data), hints={"state/0/1/w": 1})


def test_a_state_of_another_shape_or_type_is_refused():
    step, state, data = STEPS["perceptron"](jnp.float32)
    train = tofu.jax.partition(step, 2, (state, data))
    with pytest.raises(ShapeError, match=r"If it is a part of the state, pick that: part=lambda state"):
        train.also(evaluate, (state[:1], data))
    wider = jax.tree.map(lambda x: jnp.concatenate([x, x]), state[0])
    with pytest.raises(ShapeError, match=r"layers/0/b is float32 of shape \(320,\), and float32 of shape \(160,\) in"):
        train.also(lambda layers: layers[0]["w"], (wider,), part=lambda state: state[0])
    halves = jax.tree.map(lambda x: x.astype(jnp.bfloat16), state[0])
    with pytest.raises(ShapeError, match="layers/0/b is bfloat16"):
        train.also(lambda layers: layers[0]["w"], (halves,), part=lambda state: state[0])


def test_a_decorated_step_is_planned_at_its_first_call():
    step, state, data = STEPS["convolutions"](jnp.float32)

    @tofu.jax.partition(workers=2, hints={"params/second": 3})
    def train(params, data):
        """Take a step."""
        return step(params, data)

    assert (train.__name__, train.__doc__) == ("train", "Take a step.")
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


def test_a_decorated_method_has_its_instance_as_state():
    @jax.tree_util.register_dataclass
    @dataclass
    class DecoratedModel:
        weight: jax.Array

        @tofu.jax.partition(workers=2)
        def step(self, x):
            return DecoratedModel(self.weight * 2), (x @ self.weight).sum()

    weight = jnp.ones((8, 8))
    following, total = DecoratedModel(weight).step(weight)
    np.testing.assert_array_equal(following.weight, weight * 2)
    assert float(total) == 512
    assert DecoratedModel.step.planned().plan.tensors["self/weight"] is not None

    class Trainer:
        step = tofu.jax.partition(lambda self, x: x, 2)

    with pytest.raises(UnsupportedError, match=r"self is of type .*Trainer"):
        Trainer().step(weight)


def test_attributes_of_a_deferred_step_before_and_after_planning():
    step, state, data = STEPS["convolutions"](jnp.float32)
    train = tofu.jax.partition(step, 2)
    with pytest.raises(AttributeError, match=r"has no plan before that.* step\.planned\(state, batch\)\.plan"):
        train.plan  # noqa: B018
    made = train.planned(*jax.eval_shape(lambda *x: x, state, data))
    assert train.plan == made.plan
    assert train.mesh == made.mesh
    assert not hasattr(train, "plann")
