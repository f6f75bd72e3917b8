import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.comparison import assert_close
from tofu.errors import UnsupportedError

RANDOM = np.random.default_rng(0)
WEIGHT, BIAS = jnp.asarray(RANDOM.normal(size=(12, 8)), "float32"), jnp.asarray(RANDOM.normal(size=8), "float32")
BATCH = jnp.asarray(RANDOM.normal(size=(24, 12)), "float32")


def assert_same(found, expected):
    assert_close(found, expected, 2e-4, 2e-5)


def test_steps_may_be_planned_under_a_transformation():
    made = tofu.jax.partition(workers=4)(lambda weight, rows: jnp.sin(rows @ weight).sum())
    assert_same(*(jax.grad(step, argnums=(0, 1))(WEIGHT, BATCH) for step in (made, made.step)))


@pytest.mark.parametrize("transform", [jax.jacfwd, jax.hessian, lambda f: lambda x: jax.jvp(f, (x,), (x,))])
def test_forward_mode_is_refused_with_a_remedy(transform):
    made = tofu.jax.partition(lambda x: jnp.sin(x).sum(), 2, (BIAS,))
    with pytest.raises(UnsupportedError, match=r"no forward-mode derivative .* jax.jacrev"):
        transform(lambda x: made(x))(BIAS)


def test_traced_values_are_not_constants():
    def outer(weight):
        return tofu.jax.partition(lambda rows: (rows @ weight).sum(), 2, (BATCH,))(BATCH)

    with pytest.raises(UnsupportedError, match=r"closes over an array of float32, shape \(12, 8\).*argument of the"):
        jax.grad(outer)(WEIGHT)


def softplus_loss(x):
    return jnp.sum(jax.nn.softplus(x))


@jax.custom_vjp
def clip_gradient(x):
    return x


clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))

TRANSFORMED = {
    "a custom derivative": (lambda x: jnp.sum(clip_gradient(x) * 5 * x), (BIAS,), {}, jax.grad),
    "constants that are computed when the step is read": (softplus_loss, (BIAS,), {}, lambda f: jax.jit(jax.grad(f))),
    "one call after another": (lambda x: jnp.mean(jnp.cos(x)), (BIAS,), {}, lambda f: jax.grad(lambda x: f(x * f(x)))),
    "a Python number": (lambda x, rate: jnp.sum(jnp.cos(x * rate)), (BIAS, 0.5), {}, lambda f: jax.grad(f, (0, 1))),
    "no batch at all": (lambda x: (jnp.cos(x), x.sum()), (BIAS,), {}, lambda f: lambda x: jax.vmap(f)(x[None][:0])),
    "an array on one device": (softplus_loss, (jax.device_put(BIAS, jax.devices()[5]),), {}, jax.grad),
    "a random key, in a branch": (
        lambda x, key: jnp.sum(jnp.cos(x) * jax.random.normal(key, x.shape)),
        (BIAS, jax.random.key(0)),
        {},
        lambda f: jax.grad(lambda x, key: lax.cond(x.sum() > -9, f, lambda x, key: x.sum(), x, key)),
    ),
    "whole numbers in unequal shards": (
        lambda x, n: (jnp.sum(jnp.cos(x)), n + 1),
        (BIAS, jnp.arange(5)),
        {"uneven": "free", "hints": {"n": 0}},
        lambda f: jax.grad(lambda x, n: f(x, n)[0]),
    ),
}


@pytest.mark.parametrize("case", TRANSFORMED)
def test_transformations_of_all_kinds_of_arguments(case):
    step, arguments, options, transform = TRANSFORMED[case]
    made = tofu.jax.partition(step, 3 if options else 2, arguments, **options)
    placed = [made.place(argument, n) if options else argument for n, argument in enumerate(arguments)]
    assert_same(transform(made)(*placed), transform(step)(*arguments))


def test_arrays_in_unequal_shards_have_gradients():
    def step(state, rows):
        return state, rows * 2, state.sum() ** 2

    state, rows = jnp.arange(28.0).reshape(7, 4), jnp.arange(24.0).reshape(6, 4)
    made = tofu.jax.partition(step, 2, (state, rows), uneven="free")

    def loss(step):
        return lambda state, rows: sum(jnp.sum(jnp.asarray(x) ** 2) for x in jax.tree.leaves(step(state, rows)))

    expected = jax.grad(loss(step), argnums=(0, 1))(state, rows)
    assert_same(jax.grad(loss(made), argnums=(0, 1))(state, rows), expected)
    assert_same(jax.grad(loss(made), argnums=(0, 1))(made.place(state), rows), expected)
