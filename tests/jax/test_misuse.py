"""What is misused in calls, methods and options of steps is named, with what to give instead."""

from __future__ import annotations

import copy
import pickle

import jax
import jax.numpy as jnp
import pytest

import tofu.jax
from tofu.errors import DeviceError, PlanError, ShapeError, UnsupportedError


def make_small() -> tuple[tofu.jax.PartitionedStep, dict, tuple]:
    state, batch = {"w": jnp.ones((128, 256))}, (jnp.ones((64, 128)), 1.5)
    step = lambda state, batch: ({"w": state["w"] - batch[1] * (batch[0] ** 2).mean()}, batch[0].sum())  # noqa: E731
    return tofu.jax.partition(step, 4, (state, batch)), state, batch


def test_what_is_no_array_in_a_call_is_named():
    made, state, batch = make_small()
    with pytest.raises(ShapeError, match=r"batch/1 is 'a' \(a str\), and the step was planned for an array of float32"):
        made(state, (batch[0], "a"))
    with pytest.raises(ShapeError, match=r"batch/0 is a shape, .*pass arrays here"):
        made(state, (jax.ShapeDtypeStruct((64, 128), "float32"), 1.5))
    with pytest.raises(ShapeError, match="state/w is a shape"):
        made.place(jax.eval_shape(lambda: state))
    with pytest.raises(ShapeError, match="batch/0 is a shape"):
        made.place_part((jax.ShapeDtypeStruct((64, 128), "float32"), 1.5))


def test_another_class_in_the_tree_is_named():
    made, state, batch = make_small()
    with pytest.raises(ShapeError, match="batch is a list, and was planned as a tuple"):
        made(state, list(batch))
    with pytest.raises(ShapeError, match="batch is a list, and was planned as a tuple"):
        made.place(list(batch), argument=1)
    with pytest.raises(
        UnsupportedError, match=r"it has no bat \(did you mean batch\?\). The signature is step\(state, batch\)"
    ):
        made(state, bat=batch)


def test_misuse_of_what_a_step_offers_is_said():
    made, state, batch = make_small()
    with pytest.raises(PlanError, match=r"a text, and 3 \(an int\) was given"):
        made.why(3)
    with pytest.raises(PlanError, match=r"'state/w' is a tensor, .* it is read by "):
        made.why("state/w")
    with pytest.raises(UnsupportedError, match=r"takes the path of a file, .* not 3 \(an int\)"):
        made.save_report(3)
    with pytest.raises(UnsupportedError, match="part= is a function"):
        made.also(lambda w, batch: w.sum(), (state["w"], batch), part="w")
    with pytest.raises(UnsupportedError, match="not the tuple of the step's arguments"):
        made.also(lambda w, batch: w.sum(), {"w": state["w"], "batch": batch})
    with pytest.raises(ShapeError, match=r"is an array, and the state a dict of 1 array with the keys w\. If"):
        made.also(lambda w, batch: w.sum(), (state["w"], batch))
    with pytest.raises(UnsupportedError, match=r"workers= \(it runs on the devices of the step"):
        made.also(lambda state, batch: batch[0].sum(), (state, batch), workers=2)
    for copy_it in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(UnsupportedError, match="cannot be copied or pickled"):
            copy_it(made)


def test_options_of_jax_are_answered():
    arguments = (jnp.ones((64, 128)),)
    for option, answer in (("static_argnums", "static by themselves"), ("in_shardings", "hints= fixes some")):
        with pytest.raises(UnsupportedError, match=rf"{option}= \(.*{answer}"):
            tofu.jax.partition(jnp.sin, 4, arguments, **{option: 0})
    with pytest.raises(UnsupportedError, match=r"unevn= \(did you mean uneven=\?\)"):
        tofu.jax.partition(jnp.sin, 4, arguments, unevn="free")
    with pytest.raises(UnsupportedError, match="The step names an axis of devices"):
        tofu.jax.partition(lambda x: jax.lax.pmean(x, "i"), 4, arguments)
    with pytest.raises(DeviceError, match="an empty list"):
        tofu.jax.partition(jnp.sin, [], arguments)


def test_an_operator_that_cannot_be_split_is_explained():
    step = lambda x: (jax.lax.while_loop(lambda v: v.sum() < 9, lambda v: v * 2, x), x * 2)  # noqa: E731
    arguments = (jnp.ones((64, 128)),)
    with pytest.raises(
        PlanError, match=r"while at .*test_misuse\.py:\d+: it cannot be split along 'i0', nor .*: r0_0 indexes into"
    ):
        tofu.jax.partition(step, 4, arguments, hints={"while": "i0"})
    assert "It cannot be split: r0_0 indexes into" in tofu.jax.partition(step, 4, arguments).why("while")
