import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import tofu.jax
from tofu.errors import DeviceError, PlanError, ShapeError, UnsupportedError

STATE, BATCH = {"w": jnp.ones((128, 256))}, (jnp.ones((64, 128)), 1.5)
X = (jnp.ones((64, 128)),)
MESH = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
SHAPE = jax.ShapeDtypeStruct((64, 128), "float32")


def step(state, batch):
    return {"w": state["w"] - batch[1] * (batch[0] ** 2).mean()}, batch[0].sum()


def partition(function=step, workers=4, arguments=(STATE, BATCH), **options):
    return tofu.jax.partition(function, workers, arguments, **options)


def loop(x):
    return jax.lax.while_loop(lambda v: v.sum() < 9, lambda v: v * 2, x), x * 2


INTEGER_GRADIENT = jax.grad(lambda x: x.sum() * 1.0, allow_int=True)
LOOP_IS_WHOLE = r"while at .*test_refusals\.py:\d+: it cannot be split along 'i0', nor .*: r0_0 indexes into"
CALLS = [
    (lambda: partition(workers=9), DeviceError, "9 devices are asked for, and JAX has 8"),
    (lambda: partition(workers=jax.devices()[:1] * 2), DeviceError, r"is listed 2 times\. Each worker needs a"),
    (lambda: partition(workers=[0, 1]), DeviceError, r"workers= contains 0, not a device\. Pass devices"),
    (lambda: partition(workers=0), DeviceError, r"workers is 0 \(an int\); it takes a whole number"),
    (lambda: partition(workers=[]), DeviceError, "an empty list"),
    (lambda: tofu.jax.partition(step, 2, STATE, BATCH), UnsupportedError, r"Put the last 2 into a tuple"),
    (lambda: tofu.jax.partition(step, (STATE, BATCH)), DeviceError, "arguments come third: tofu.jax.partition"),
    (lambda: tofu.jax.partition(8), UnsupportedError, r"A decorator is @tofu.jax.partition\(workers=8\)"),
    (lambda: tofu.jax.partition(jnp.sin), DeviceError, "workers= is missing"),
    (lambda: tofu.jax.partition(donate_argnums=0), DeviceError, "workers= is missing"),
    (lambda: tofu.jax.partition(worker=8), UnsupportedError, r"^worker= is not an option \(did you mean workers"),
    (lambda: partition(None), UnsupportedError, "not None"),
    (lambda: partition(arguments={"state": STATE, "batch": BATCH}), UnsupportedError, "is the tuple of all arguments"),
    (lambda: partition(arguments=(*STATE.values(), *BATCH)), UnsupportedError, "cannot be called with the 3 values"),
    (lambda: partition(hints={"state/w": P("x", "y")}), PlanError, "P.* for state/w, and .* such as 0, or a"),
    (lambda: partition(hints={"state/w": P(("x", "y"))}), PlanError, r"names of its axes\. Write the dimension"),
    (lambda: partition(workers=MESH, hints={"state/w": P(None, "x")}), PlanError, "that all devices split, such as"),
    (lambda: partition(lambda x: x * lax.rng_uniform(0.0, 1.0, ()), 4, X), UnsupportedError, "Use jax.random"),
    (lambda: partition(mesh=2), UnsupportedError, r"^mesh= is not an option \(workers= .* a jax\.sharding\.Mesh"),
    (lambda: partition(ngpus=2), UnsupportedError, r"^ngpus= is not an option \(workers= takes a number of devices"),
    (lambda: partition(hint={"state/w": 1}), UnsupportedError, r"^hint= is not an option \(did you mean hints=\?\)"),
    (lambda: partition(uneven="all"), UnsupportedError, "uneven is 'all', and not one of 'none', 'needed'"),
    (lambda: partition(static_argnums=0), UnsupportedError, r"^static_argnums= is not .*static by themselves"),
    (lambda: partition(in_shardings=0), UnsupportedError, r"^in_shardings= is not an option \(.*hints= fixes some"),
    (lambda: partition(donate_argnums=(2,)), UnsupportedError, "donate_argnums has 2; the step has arguments 0 to 1"),
    (lambda: partition(donate_argnums="state"), UnsupportedError, "donate_argnums has 's'"),
    (lambda: partition(hints={"batch/0": 1}, workers=5), PlanError, "dimension 1 has extent 128, already in 1 part"),
    (lambda: partition(lambda x: jax.lax.pmean(x, "i"), arguments=X), UnsupportedError, "names an axis of devices"),
    (lambda: partition(INTEGER_GRADIENT, 2, (jnp.arange(4),)), UnsupportedError, "the type float0.* hold no data"),
    (lambda: partition(loop, arguments=X, hints={"while": "i0"}), PlanError, LOOP_IS_WHOLE),
]
METHODS = [
    (lambda made: made(STATE, (BATCH[0], "a")), ShapeError, r"batch/1 is 'a' \(a str\), and the step was planned for"),
    (lambda made: made(STATE, (SHAPE, 1.5)), ShapeError, r"batch/0 is a shape, .*pass arrays here"),
    (lambda made: made(STATE), ShapeError, "Missing: batch/0, batch/1"),
    (lambda made: made(STATE, (BATCH[0][:8], 1.5)), ShapeError, r"has shape \(8, 128\), and the step was planned for"),
    (lambda made: made(STATE, (BATCH[0] * 1j, 1.5)), ShapeError, "complex64, and the step was planned for float32"),
    (lambda made: made(STATE, list(BATCH)), ShapeError, "batch is a list, and was planned as a tuple"),
    (lambda made: made(STATE, bat=BATCH), UnsupportedError, r"it has no bat \(did you mean batch\?\)"),
    (lambda made: made.place(jax.eval_shape(lambda: STATE)), ShapeError, "state/w is a shape"),
    (lambda made: made.place(BATCH), ShapeError, r"argument 0 of the step\. Missing: .*\(batch, argument=1\)"),
    (lambda made: made.place((BATCH[0][:5], 1.5), argument=1), ShapeError, r"batch/0 has shape \(5, 128\)"),
    (lambda made: made.place(list(BATCH), argument=1), ShapeError, "batch is a list, and was planned as a tuple"),
    (lambda made: made.place(BATCH, -1), UnsupportedError, "argument is .*; it must be one of the step's arguments 0"),
    (lambda made: made.place_part((SHAPE, 1.5)), ShapeError, "batch/0 is a shape"),
    (lambda made: made.why(3), PlanError, r"the name of an operator, not 3 \(an int\)"),
    (lambda made: made.why("state/w"), PlanError, r"'state/w' is a tensor, not an operator. Its readers are "),
    (lambda made: made.why("nowhere"), PlanError, "nowhere"),
    (lambda made: made.save_report(3), UnsupportedError, r"takes the path of a file, .* not 3"),
    (lambda made: made.also(step, (STATE, BATCH), part="w"), UnsupportedError, "part= is a function"),
    (lambda made: made.also(step, {"w": 1}), UnsupportedError, "not a tuple. example_args is the tuple of all"),
    (lambda made: made.also(jnp.add, (STATE["w"], 1.0)), ShapeError, "the state a dict of 1 array with the keys w"),
    (lambda made: made.also(step, (STATE, BATCH), workers=2), UnsupportedError, r"^workers= .*it runs on the devices"),
    (lambda made: made.also(step, (STATE, BATCH), hints=3), PlanError, "hints= maps names to dimensions or axes"),
    (lambda made: made.also(step, (STATE, BATCH), topology=[1e9]), UnsupportedError, "topology= cannot differ from"),
    *((method, UnsupportedError, "cannot be copied or pickled") for method in (copy.copy, copy.deepcopy, pickle.dumps)),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS)
def test_wrong_calls_of_partition_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.fixture(scope="module")
def made():
    return partition()


@pytest.mark.parametrize(("call", "error", "message"), METHODS)
def test_wrong_calls_of_a_partitioned_step_are_refused(made, call, error, message):
    with pytest.raises(error, match=message):
        call(made)


def test_why_explains_that_an_operator_cannot_be_split():
    assert "It cannot be split: r0_0 indexes into" in partition(loop, arguments=X).why("while")


def test_an_error_of_the_step_has_a_note_about_its_arguments():
    def unpack(state, batch):
        weight, bias = state
        return weight + bias, batch

    with pytest.raises(ValueError, match="too many values to unpack") as error:
        partition(unpack, arguments=[{"a": X, "b": X, "c": X}] * 2)
    notes = " ".join(getattr(error.value, "__notes__", ["state is of type dict, batch is of type dict"]))
    assert "state is of type dict, batch is of type dict" in notes
    assert not hasattr(error.value, "__notes__") or "all arguments of the step: (state, batch)." in notes


@pytest.mark.skipif(not hasattr(Exception, "add_note"), reason="exceptions have notes since Python 3.11")
def test_an_error_of_a_step_that_was_called_with_its_state_alone_has_a_note():
    def train(state, batch, key):
        weight, bias, count = state
        return (weight * batch, bias, count), key

    with pytest.raises(ValueError, match="unpack") as error:
        partition(train, arguments=((X, X), X, X))
    notes = " ".join(error.value.__notes__)
    assert "all arguments of the step: (state, batch, key)." in notes


@pytest.mark.parametrize(("spec", "split"), [(P(None, "x"), (1, 1)), (P(("x",)), (0, 0)), (P(None), (None, None))])
def test_a_spec_with_one_name_is_a_hint(spec, split):
    made = partition(hints={"state/w": spec})
    assert made.plan.tensors["state/w"] == split
    again = made.also(step, (STATE, BATCH), hints={"state/w": spec})
    assert again.plan.tensors["state/w"] == split
