import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.comparison import check_step

X = jnp.asarray(np.random.default_rng(0).normal(size=(256, 256)), jnp.float32)


@pytest.mark.parametrize("number", [-1, 1, 7])
def test_all_branches_are_split_and_one_is_selected(number):
    def step(w, x, n):
        return w + lax.switch(n, [lambda: jnp.tanh(x) @ w, lambda: x * 2, lambda: w]), n + 1

    operators = check_step(step, 4, X, X, jnp.asarray(number), rtol=1e-4, atol=1e-3).plan.operators
    split = [name for name, axes in operators.items() if None not in axes]
    assert {"cond/branch_0/dot_general", "cond/branch_1/mul", "cond/select_n"} <= {*split}


@pytest.mark.parametrize("large", [True, False])
def test_equal_results_of_branches_are_not_selected(large):
    """Cover optax.MultiSteps and optax.apply_if_finite."""
    step = lambda w, is_large: lax.cond(is_large, lambda w: (w * 2, 1.0), lambda w: (w, 1.0), w)  # noqa: E731
    made = check_step(step, 4, X, jnp.asarray(large))
    assert made.plan.communication_bytes == 0
    assert [name for name in made.plan.operators if "select_n" in name] == ["cond/select_n", "cond/select_n_1"]


def test_a_loop_of_unknown_length_is_replicated():
    def step(w, limit):
        halved, count = lax.while_loop(lambda c: jnp.sum(c[0] ** 2) > limit, lambda c: (c[0] / 2, c[1] + 1), (w, 0))
        return w @ halved, count

    plan = check_step(step, 4, X, 3.0, rtol=1e-4, atol=1e-3).plan
    assert set(plan.operators["while"]) == {None}
    assert None not in plan.operators["dot_general"]
    assert plan.communication_bytes >= 3 * X.nbytes


@pytest.mark.parametrize("is_ending", [True, False])
def test_a_branch_that_would_not_end_is_not_run(is_ending):
    def step(w, is_ending):
        endless = lambda: lax.while_loop(lambda v: v[0, 0] == v[0, 0], lambda v: v + 1, w)  # noqa: E731
        return lax.cond(is_ending, lambda: w * 2, lambda: lax.cond(is_ending, endless, lambda: w)) @ w

    assert set(check_step(step, 4, X, jnp.asarray(is_ending), rtol=1e-4, atol=1e-3).plan.operators["cond"]) == {None}


@pytest.mark.parametrize("is_wrong", [True, False])
def test_a_callback_runs_only_if_its_branch_is_taken(is_wrong):
    """Cover `equinox.error_if`, which diffrax and optimistix use."""

    def refuse(x):
        raise ValueError("too many steps")

    def step(w, is_wrong):
        shape = jax.ShapeDtypeStruct(w.shape, w.dtype)
        checked = lax.cond(is_wrong, lambda: jax.pure_callback(refuse, shape, w), lambda: w)
        return checked @ w, jax.pure_callback(np.tanh, shape, w, vmap_method="sequential")

    if is_wrong:
        made = tofu.jax.partition(step, 2, (X, jnp.asarray(True)))
        with pytest.raises(Exception, match="too many steps"):
            jax.block_until_ready(made(X, jnp.asarray(True)))
    else:
        plan = check_step(step, 4, X, jnp.asarray(False), rtol=1e-4, atol=1e-3).plan
        assert set(plan.operators["cond"]) == set(plan.operators["pure_callback"]) == {None}


def test_branches_and_loops_within_a_scan():
    def step(w, x):
        def body(h, n):
            h = lax.cond(n % 2 == 0, lambda: jnp.tanh(h @ w), lambda: h / 2)
            return h, lax.while_loop(lambda v: v > 1, lambda v: v / 2, jnp.abs(h).sum())

        return w, lax.scan(body, x, jnp.arange(4))

    check_step(step, 4, X, X[:64], rtol=1e-4, atol=1e-3)
