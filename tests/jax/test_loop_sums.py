"""Sums that loops carry. If tensors may be replicated, each worker sums its own part, reduced once after the loop."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.comparison import assert_close, check_step, check_training
from tests.models.jax.language import lstm
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.frontend.equations import Loop
from tofu.jax.frontend.loop_sums import hoist_sums
from tofu.jax.frontend.read_step import hoist_loop_sums, read_step
from tofu.jax.frontend.versions import in_double_precision
from tofu.jax.planning import choose_form, read_settings
from tofu.plan import Plan
from tofu.search import find_strategies

RNG = np.random.default_rng(3)


def draw(*shape, dtype="float64"):
    return jnp.asarray(RNG.uniform(-0.5, 0.5, shape), dtype)


def accumulate(loss):

    def grad(params, data):
        def add(carry, weight):
            value, gradients = jax.value_and_grad(loss)(params, weight)
            return (carry[0] + value, jax.tree.map(jnp.add, carry[1], gradients)), None

        begin = jnp.zeros((), data[0].dtype), jax.tree.map(jnp.zeros_like, params)
        (value, gradients), _ = lax.scan(add, begin, data)
        return value / len(data[0]), jax.tree.map(lambda g: g / len(data[0]), gradients)

    return grad


def nested():
    def loss(params, data):
        x, y = data

        def cell(h, x):
            h = jnp.tanh(x @ params["x"] + h @ params["h"] + params["b"])
            return h, None

        h, _ = lax.scan(cell, jnp.zeros_like(x[0]), x)
        return jnp.mean((h @ params["out"] - y) ** 2)

    def step(params, data):
        value, gradients = accumulate(loss)(params, data)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value

    params = {"x": draw(32, 32), "h": draw(32, 32), "b": draw(32), "out": draw(32, 8)}
    return step, params, (draw(3, 5, 16, 32), draw(3, 16, 8))


def count_carries(step):
    """Return the number of carries of each loop, outer loops first."""

    def walk(items):
        for item in items:
            if isinstance(item, Loop):
                yield len(item.carries)
                yield from walk(item.equations)

    return list(walk(step.equations))


@pytest.mark.parametrize("is_random", [False, True])
def test_steps_with_moved_sums_train_as_on_one_device(is_random):
    draws = random.Random(2)
    with in_double_precision():
        step, state, data = nested()
        graph = hoist_loop_sums(read_step(step, (state, data))).graph
        accesses = find_strategies(graph, tofu.jax.JAX.front_end)
        hints = {
            operator.name: draws.choice(access.axes)
            for operator, access in zip(graph.operators, accesses, strict=True)
            if is_random and access.axes and draws.random() < 0.5
        }
        made = tofu.jax.partition(step, 3, (state, data), replicate="free", hints=hints, search_seconds=2)
        assert any(tensor.addends > 1 for tensor in made.partition.graph.tensors)
        check_training(made, step, state, data)
        if not is_random:
            moved = count_traffic(made.lower_leaves().compile().as_text(), 3).total
            assert moved <= 1.02 * made.plan.communication_bytes
            again = tofu.jax.partition(step, 3, (state, data), plan=Plan.from_json(made.plan.to_json()))
            assert again.plan.communication_bytes == made.plan.communication_bytes


def test_sums_stay_in_the_loop_if_everything_is_split():
    with in_double_precision():
        step, state, data = nested()
        source = read_step(step, (state, data))
    assert choose_form(source, read_settings(4, {})) is source
    for options in ({"replicate": "free"}, {"memory_limit": 2**20}):
        assert (
            choose_form(source, read_settings(4, options)).graph.fingerprint
            == hoist_loop_sums(source).graph.fingerprint
        )


def test_plans_within_the_memory_of_data_parallelism_reduce_gradients_once():
    model = lstm(batch=64, width=128, steps=50, is_loop=True)
    asked = model.state, model.data
    weights = sum(np.prod(leaf.shape) * 4 for leaf in jax.tree.leaves(model.state))
    by_hand = tofu.jax.partition(model.step, 8, asked, algorithm="data-parallel").memory_report().worker.needed_bytes
    made = tofu.jax.partition(model.step, 8, asked, memory_limit=by_hand, search_seconds=5)
    all_reduced = 8 * 2 * weights * 7 / 8
    assert made.plan.communication_bytes <= all_reduced
    assert made.memory_report().worker.needed_bytes <= by_hand


# Functions of (weights, rows) whose loop carries c.


def loop(term, start=None, dtype=None):
    def step(w, xs):
        first = jnp.zeros(w.shape, dtype or w.dtype) if start is None else start(w)
        return lax.scan(lambda c, x: (c + term(w, x), None), first, xs)[0]

    return step


def product(w, x):
    return x.T @ (x @ w)


def differentiate_layers(w, x):
    def loss(w, x):
        return jnp.sum(lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, w)[0])

    return jax.grad(loss)(jnp.stack([w @ w.T, w @ w.T]), x)


def make_zero_layers(w):
    return jnp.zeros((2, len(w), len(w)), w.dtype)


def widen(product, *dtypes):
    for dtype in dtypes:
        product = product.astype(dtype) * np.asarray(0.5, dtype)
    return product


MOVED_SUMS = {
    "a product": loop(product),
    "with a first value": loop(product, start=lambda w: w),
    "a penalty beside": loop(lambda w, x: product(w, x) + 0.1 * w * x[0, 0]),
    "less another product": loop(lambda w, x: product(w, x) - 2.0 * product(w, x * x)),
    "scaled by a number": loop(lambda w, x: -product(w, x) / 3.0),
    "scaled by a value from outside": lambda w, xs: loop(lambda v, x: product(v, x) * w[0, 0] / w)(w, xs),
    "laid out otherwise": loop(lambda w, x: product(w, x).T.reshape(-1, 2).reshape(w.shape[::-1]).T),
    "converted twice": loop(
        lambda w, x: widen(product(w.astype("float16"), x.astype("float16")), "float32", "float64")
    ),
    "one row for all": loop(lambda w, x: x[:1] @ w),
    "padded": loop(lambda w, x: jnp.pad(product(w, x)[1:], ((1, 0), (0, 0)))),
    "a column each": loop(lambda w, x: jnp.concatenate([product(w[:, :2], x), product(w[:, 2:], x)], 1)),
    "looked up": loop(lambda w, x: jnp.zeros_like(w).at[jnp.abs(8 * x[:, 0]).astype(int)].add(x @ w)),
    "layers put together": loop(differentiate_layers, start=make_zero_layers),
    "a sum": loop(lambda w, x: jnp.sum(x @ w), start=lambda w: jnp.zeros((), w.dtype)),
    "whole numbers": loop(
        lambda w, x: (x > 0).astype(int).T @ (x @ w > 0).astype(int), start=lambda w: jnp.zeros(w.shape, int)
    ),
    "within a loop": lambda w, xs: loop(lambda w, x: loop(product)(w, jnp.stack([x, 2 * x])))(w, xs),
    "begun anew within a loop": lambda w, xs: lax.scan(
        lambda c, x: (jnp.tanh(c + loop(product)(c, jnp.stack([x, -x]))), None), w, xs
    )[0],
    "computed again": loop(lambda w, x: jax.grad(lambda w: jnp.sum(jax.checkpoint(lambda w: jnp.tanh(x @ w))(w)))(w)),
}


KEPT_SUMS = {
    "layers put together and read": loop(
        lambda w, x: (g := differentiate_layers(w, x)) / jnp.max(g), start=make_zero_layers
    ),
    "read otherwise": lambda w, xs: lax.scan(lambda c, x: (c + product(c, x), None), w, xs)[0],
    "put together": lambda w, xs: lax.scan(lambda c, x: (c + product(w, x), c), w, xs),
    "the next one put together": lambda w, xs: lax.scan(lambda c, x: ((n := c + product(w, x)), n), w, xs),
    "scaled in the loop": lambda w, xs: lax.scan(lambda c, x: (0.9 * c + product(w, x), None), w, xs)[0],
    "not linear": loop(lambda w, x: jnp.tanh(product(w, x))),
    "a largest": loop(lambda w, x: jnp.max(x @ w), start=lambda w: jnp.zeros((), w.dtype)),
    "no product": loop(lambda w, x: w * x[0, 0]),
    "half": loop(lambda w, x: product(w, x.astype("float16")) / 3, start=lambda w: w),
    "a product also read otherwise": loop(lambda w, x: (p := product(w, x)) / jnp.sum(p)),
    "another one's": lambda w, xs: lax.scan(
        lambda c, x: ((c[1] + product(w, x), c[0] + product(w, -x)), None), (w, w), xs
    )[0],
}


@pytest.mark.parametrize("name", MOVED_SUMS)
def test_linear_sums_are_moved_behind_the_loop(name):
    with in_double_precision():
        arguments = draw(8, 4), draw(5, 6, 8)
        made = tofu.jax.partition(MOVED_SUMS[name], 1, arguments, replicate="free")
        step, moved = (getattr(made.partition.source.native, form) for form in ("original", "step"))
        assert sum(count_carries(moved)) < sum(count_carries(step))
        assert any(equation.loops_summed for equation in moved.walk())
        assert_close(made(*arguments), MOVED_SUMS[name](*arguments), 1e-12, 1e-13)
        assert [moved.types[x] for x in moved.outputs] == [step.types[x] for x in step.outputs]


@pytest.mark.parametrize("name", KEPT_SUMS)
def test_other_carries_stay_in_the_loop(name):
    with in_double_precision():
        dtype = "float16" if name == "half" else "float64"
        assert hoist_sums(read_step(KEPT_SUMS[name], (draw(8, 4, dtype=dtype), draw(5, 6, 8))).native.step) is None


def test_products_of_half_precision_are_added_in_the_type_of_the_carry():
    step = loop(lambda w, x: product(w.astype("bfloat16"), x.astype("bfloat16")).astype("float32"), dtype="float32")
    w, xs = jnp.ones((8, 4)), jnp.full((4096, 2, 8), 0.25)
    assert hoist_sums(read_step(step, (w, xs)).native.step) is not None
    check_step(step, 2, w, xs, rtol=0, atol=0, replicate="free")
