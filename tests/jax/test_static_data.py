"""Arguments whose static data, such as the functions in a TrainState, compare different from the planned ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tofu.jax
from tests.jax.comparison import assert_close
from tofu.errors import ShapeError
from tofu.jax.frontend.step_difference import describe_step_difference, is_same
from tofu.jax.frontend.trace import trace_step

RANDOM = np.random.default_rng(0)
WEIGHT, BATCH = (jnp.asarray(RANDOM.normal(size=(32, 32)), "float32") for _ in range(2))


@jax.tree_util.register_dataclass
@dataclass
class State:
    w: Any
    apply: Any = field(metadata={"static": True})
    update: Any = field(metadata={"static": True})


def make_activation(scale, gradient_scale=1.0):
    """Return a new function. Its derivative is multiplied by `gradient_scale`, so it may be wrong."""

    @jax.custom_vjp
    def activation(x):
        return scale * jnp.tanh(x)

    def forward(x):
        return activation(x), x

    def backward(x, cotangent):
        return (gradient_scale * cotangent * scale * (1 - jnp.tanh(x) ** 2),)

    activation.defvjp(forward, backward)
    return activation


def make_state(rate=0.1, scale=1.0, gradient_scale=1.0, update=None):
    return State(WEIGHT, make_activation(scale, gradient_scale), update or (lambda w, gradient: w - rate * gradient))


def step(state, x):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean(state.apply(x @ w) ** 2))(state.w)
    return State(state.update(state.w, gradient), state.apply, state.update), loss


def evaluate(state, x):
    return state.apply(x @ state.w).sum(axis=0)


def train(step, state, steps=3):
    losses = []
    for _ in range(steps):
        state, loss = step(state, BATCH)
        losses.append(loss)
    return state, losses


@pytest.mark.parametrize("is_deferred", [False, True])
def test_states_with_new_functions_are_accepted(is_deferred):
    made = tofu.jax.partition(step, 4, None if is_deferred else (jax.eval_shape(make_state), BATCH), donate_argnums=0)
    if is_deferred:
        train(made, make_state())
    state = make_state()
    placed = made.place(state)
    assert (placed.apply, placed.update) == (state.apply, state.update)
    after, losses = train(made, placed)
    assert after.update is state.update
    wanted, wanted_losses = train(jax.jit(step), make_state())
    assert_close((after.w, losses), (wanted.w, wanted_losses))
    assert placed.w.is_deleted()


def test_a_step_is_traced_once_for_new_functions():
    traces = []

    def counted(state, x):
        traces.append(0)
        return step(state, x)

    made = tofu.jax.partition(counted, 2, (make_state(), BATCH))
    first, second = (made.place(make_state()) for _ in range(2))
    for state in (first, second, first):
        train(made, state)
    assert len(traces) == 3


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            make_state(rate=0.2),
            r"state/update is another function than planned\. So the step would .*py:\d+, mul has the constant 0\.2, and 0\.1 in the "
            r"plan\. .*create an optimizer once",
        ),
        (make_state(scale=2.0), r"state/apply is another custom_vjp than planned\..*mul has the constant 2\.0"),
        (make_state(update=jnp.minimum), r"state/update is minimum, and <lambda> is part of the step\."),
    ],
    ids=["rate", "activation", "name"],
)
def test_states_that_lead_to_another_program_are_refused(state, message):
    made = tofu.jax.partition(step, 2, (make_state(), BATCH))
    placed = made.place(state)
    with pytest.raises(ShapeError, match=message):
        made(placed, BATCH)
    assert_close(made(make_state(), BATCH)[1], step(make_state(), BATCH)[1])


def test_derivatives_and_lowered_steps_use_the_new_functions():
    made = tofu.jax.partition(evaluate, 2, (make_state(), BATCH))
    for state in (make_state(), make_state(gradient_scale=3.0), make_state(gradient_scale=3.0)):
        gradients = (jax.grad(lambda x, run: run(state, x).sum())(BATCH, run) for run in (made, evaluate))  # noqa: B023
        assert_close(*gradients, 1e-4, 1e-4)
        assert_close(made.lower(state, BATCH).compile()(made.place(state), BATCH), evaluate(state, BATCH))
    batched = (jax.vmap(run, (None, 0))(make_state(), BATCH[None]) for run in (made, evaluate))
    assert_close(*batched)


def test_other_steps_on_the_state_may_have_new_functions():
    made = tofu.jax.partition(step, 2, (make_state(), BATCH))
    other = made.also(evaluate, (make_state(), BATCH))
    assert_close(other(made.place(make_state()), BATCH), evaluate(make_state(), BATCH))
    with pytest.raises(ShapeError, match=r"The first argument of the step is a dict of 1 array with the keys u"):
        made.also(lambda state, x: x, ({"u": WEIGHT}, BATCH), part=lambda state: {"w": state.w})


def test_train_states_of_flax_may_be_created_again():
    optax = pytest.importorskip("optax", reason="it is not installed")
    train_state = pytest.importorskip("flax.training.train_state", reason="it is not installed")

    def flax_step(state, x):
        loss, gradient = jax.value_and_grad(lambda params: jnp.mean(state.apply_fn(x @ params["w"]) ** 2))(state.params)
        return state.apply_gradients(grads=gradient), loss

    def make(rate=1e-3, activation=jnp.tanh):
        tx = optax.adamw(rate)
        return train_state.TrainState.create(apply_fn=activation, params={"w": WEIGHT}, tx=tx)

    made = tofu.jax.partition(flax_step, 4, (jax.eval_shape(make), BATCH))
    state = made.place(make())
    after, losses = train(made, state)
    wanted, wanted_losses = train(jax.jit(flax_step), make())
    assert after.tx is state.tx
    assert_close((after.params, after.opt_state, losses), (wanted.params, wanted.opt_state, wanted_losses))
    with pytest.raises(ShapeError, match=r"state/tx is another Gradient.* constant -0\.01, and -0\.001 in the plan"):
        made(make(1e-2), BATCH)
    with pytest.raises(ShapeError, match=r"state/apply_fn is sin, and tanh is part.* computes sin, and the plan comp"):
        made(made.place(make(activation=jnp.sin)), BATCH)


def test_modules_of_nnx_and_equinox_may_be_created_again():
    nnx = pytest.importorskip("flax.nnx", reason="it is not installed")
    equinox = pytest.importorskip("equinox", reason="it is not installed")
    layer = equinox.nn.MLP(32, 32, 32, 1, key=jax.random.key(0), activation=lambda x: jnp.tanh(x))
    other = equinox.nn.MLP(32, 32, 32, 1, key=jax.random.key(1), activation=lambda x: jnp.tanh(x))
    made = tofu.jax.partition(lambda mlp, x: jax.vmap(mlp)(x), 2, (layer, BATCH))
    assert_close(made(made.place(other), BATCH), jax.vmap(other)(BATCH))
    wider = equinox.nn.MLP(32, 32, 32, 1, key=jax.random.key(1), activation=jnp.sin)
    with pytest.raises(ShapeError, match=r"mlp/activation is sin, and <lambda> is part of the step.*computes sin"):
        made(wider, BATCH)

    def split(scale):
        return nnx.split(nnx.Linear(32, 32, kernel_init=lambda *args: scale * WEIGHT, rngs=nnx.Rngs(0)))

    made = tofu.jax.partition(lambda graph, state, x: nnx.merge(graph, state)(x), 2, (*split(1.0), BATCH))
    assert_close(made(*split(2.0), BATCH), 2 * BATCH @ WEIGHT, 1e-4, 1e-4)


def take(function, *arguments):
    return trace_step(function, arguments)[0]


PROGRAMS = {
    "while": lambda n: lambda x: jax.lax.while_loop(lambda x: x.sum() < n, lambda x: x * 2 + 1, x),
    "cond": lambda n: (
        lambda x: jax.lax.cond(x.sum() > 0, lambda x: x * n, lambda x: jax.lax.while_loop(jnp.any, jnp.sin, x), x)
    ),
    "scan": lambda n: lambda x: jax.lax.scan(lambda c, row: (c + n * row, c), x[0], x),
    "constant": lambda n: lambda x: x * np.full((32, 32), n, "float32"),
    "length": lambda n: lambda x: jax.lax.fori_loop(0, n + 2, lambda _, x: jnp.sin(x), x),
    "parameter": lambda n: lambda x: jnp.roll(x, n, 1)[:, : 8 + n],
    "result": lambda n: lambda x: (x, n),
    "sort": lambda n: lambda x: jax.lax.sort((x, x + n), num_keys=1),
    "random": lambda n: lambda x: x + jax.random.normal(jax.random.key(n), x.shape),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_compared(name):
    planned, again, other = (take(PROGRAMS[name](n), WEIGHT) for n in (1, 1, 2))
    assert describe_step_difference(planned, again) == ""
    assert describe_step_difference(planned, other) != ""


def test_functions_are_compared_by_code_and_values():
    def close_over(value):
        return lambda x: x + value

    assert is_same(close_over(np.ones(3)), close_over(np.ones(3)))
    assert not is_same(close_over(0.0), close_over(-0.0))
    assert not is_same(close_over(1), lambda x: x + 1)
