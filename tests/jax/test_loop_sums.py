"""Sums that loops carry: where tensors may be replicated they are added up by each worker, and between workers behind the loop."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import tofu.jax
from tests.jax.test_run import check_steps
from tests.models.jax.language import lstm
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.engine import JAX
from tofu.jax.frontend.equations import Loop
from tofu.jax.frontend.loop_sums import hoist_sums
from tofu.jax.frontend.read_step import hoist_loop_sums, read_step
from tofu.jax.frontend.versions import in_double_precision
from tofu.jax.planning import choose_form, plan_step, read_settings
from tofu.pipeline import Observer, analyse_step, make_partition
from tofu.plan import Plan
from tofu.search import find_strategies

RNG = np.random.default_rng(3)


def draw(*shape, dtype="float64"):
    return jnp.asarray(RNG.uniform(-0.5, 0.5, shape), dtype)


def accumulate(loss, start=jnp.zeros_like):
    """The mean of the gradients of micro-batches, and of their losses."""

    def grad(params, data):
        def add(carry, one):
            value, gradients = jax.value_and_grad(loss)(params, one)
            return (carry[0] + value, jax.tree.map(jnp.add, carry[1], gradients)), None

        begin = jnp.zeros((), data[0].dtype), jax.tree.map(start, params)
        (value, gradients), _ = lax.scan(add, begin, data)
        return value / len(data[0]), jax.tree.map(lambda g: g / len(data[0]), gradients)

    return grad


def mean_loss(params, data):
    x, y = data
    hidden = jax.nn.relu(x @ params["a"] + params["b"])
    return jnp.mean((hidden @ params["c"] - y) ** 2)


def micro_batches():
    """Three of 256 rows, by Adam."""
    optimizer = optax.adam(1e-2)

    def step(state, data):
        params, moments = state
        value, gradients = accumulate(mean_loss)(params, data)
        updates, moments = optimizer.update(gradients, moments)
        return (optax.apply_updates(params, updates), moments), value

    params = {"a": draw(16, 128), "b": draw(128), "c": draw(128, 8)}
    return step, (params, optimizer.init(params)), (draw(3, 256, 16), draw(3, 256, 8))


def recurrence():
    """An LSTM of two layers, over six positions."""
    model = lstm(batch=16, width=32, steps=6, classes=8, is_loop=True)
    state = jax.tree.map(lambda one: draw(*one.shape), model.state)
    return model.step, state, (draw(6, 16, 32), jnp.asarray(RNG.integers(0, 8, 16), "int32"))


def nested():
    """Micro-batches of sequences: loops in a loop, which carry what these carry."""

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


def layered():
    """Micro-batches of a scan over layers, computed again in the backward pass, whose gradients are put together layer by layer."""
    optimizer = optax.adam(1e-2)

    def loss(params, data):
        x, y = data

        @jax.checkpoint
        def block(h, layer):
            return h + jax.nn.gelu(h @ layer["up"] + layer["shift"]) @ layer["down"] / 3.0, None

        h, _ = lax.scan(block, x, params["layers"])
        return jnp.mean((h @ params["out"] - y) ** 2)

    def step(state, data):
        params, moments = state
        value, gradients = accumulate(loss)(params, data)
        updates, moments = optimizer.update(gradients, moments)
        return (optax.apply_updates(params, updates), moments), value

    layers = {"up": draw(4, 16, 64), "shift": draw(4, 64), "down": draw(4, 64, 16)}
    params = {"layers": layers, "out": draw(16, 8)}
    return step, (params, optimizer.init(params)), (draw(3, 64, 16), draw(3, 64, 8))


STEPS = {"micro-batches": micro_batches, "recurrence": recurrence, "nested": nested, "layered": layered}


def count_carries(step):
    """By loop, the outer ones first."""

    def walk(items):
        for item in items:
            if isinstance(item, Loop):
                yield len(item.carries)
                yield from walk(item.equations)

    return list(walk(step.equations))


@pytest.mark.parametrize(
    ("name", "workers"), [(name, (2, 3, 4, 8)[(n + k) % 4]) for n, name in enumerate(STEPS) for k in (0, 2)]
)
def test_steps_give_the_numbers_of_one_device_and_move_what_plans_count(name, workers):
    with in_double_precision():
        step, state, data = STEPS[name]()
        made = tofu.jax.partition(step, workers, (state, data), replicate="free", search_seconds=3)
        assert any(tensor.addends > 1 for tensor in made.partition.problem.graph.tensors)
        check_steps(made, step, state, data)
        moved = count_traffic(made.lower_leaves().compile().as_text(), workers).total
        assert moved <= 1.02 * made.plan.communication_bytes


@pytest.mark.parametrize(
    ("name", "workers", "seed"),
    [(name, *((2, 1), (3, 2), (4, 3), (4, 4))[(n + k) % 4]) for n, name in enumerate(STEPS) for k in (0, 2)],
)
def test_random_plans_give_the_numbers_of_one_device(name, workers, seed):
    """Whatever is split, copied or added up within the loop."""
    draws = random.Random(seed)
    with in_double_precision():
        step, state, data = STEPS[name]()
        graph = hoist_loop_sums(read_step(step, (state, data))).graph
        accesses = find_strategies(graph, tofu.jax.JAX.front_end)
        hints = {
            operator.name: draws.choice(access.axes)
            for operator, access in zip(graph.operators, accesses, strict=True)
            if access.axes and draws.random() < 0.5
        }
        made = tofu.jax.partition(step, workers, (state, data), replicate="free", hints=hints, search_seconds=2)
        assert any(tensor.addends > 1 for tensor in made.partition.graph.tensors)
        check_steps(made, step, state, data)


@pytest.mark.parametrize("name", STEPS)
def test_less_moves_than_where_loops_carry_the_sums(name):
    with in_double_precision():
        step, state, data = STEPS[name]()
        source, settings = read_step(step, (state, data)), read_settings(4, {"replicate": "free", "cache": False})
        moved = plan_step(source, settings).plan.communication_bytes
        task = analyse_step(source, JAX, settings, Observer())  # of the step as it is written
        carried = make_partition(task, Observer()).plan
        assert moved < carried.communication_bytes


@pytest.mark.parametrize("name", STEPS)
def test_either_form_is_planned_again_from_its_plan_and_run(name):
    with in_double_precision():
        step, state, data = STEPS[name]()
        for replicate in ("small", "free"):
            plan = tofu.jax.partition(step, 4, (state, data), replicate=replicate).plan
            made = tofu.jax.partition(step, 4, (state, data), plan=Plan.from_json(plan.to_json()))
            assert made.plan.communication_bytes == plan.communication_bytes
            check_steps(made, step, state, data)


def test_where_all_is_to_be_split_loops_carry_their_sums():
    with in_double_precision():
        step, state, data = nested()
        source = read_step(step, (state, data))
    assert choose_form(source, read_settings(4, {})) is source
    for options in ({"replicate": "free"}, {"memory_limit": 2**20}):
        assert (
            choose_form(source, read_settings(4, options)).graph.fingerprint
            == hoist_loop_sums(source).graph.fingerprint
        )


def test_names_are_those_of_the_step_as_it_is_written():
    with in_double_precision():
        step, state, data = nested()
        source = read_step(step, (state, data))
    moved, options = hoist_loop_sums(source), {"replicate": "free"}
    shared = moved.graph.operator_index.keys() & source.graph.operator_index.keys()
    assert shared == moved.graph.operator_index.keys()
    for name in shared:
        one, other = (graph.operators[graph.operator_index[name]] for graph in (moved.graph, source.graph))
        assert (one.op, one.attributes) == (other.op, other.attributes)
    carried = next(name for name in source.graph.tensor_index if name not in moved.graph.tensor_index)
    kept = choose_form(source, read_settings(4, {**options, "hints": {carried: 0}}))
    assert kept is source, "a hint for what the loop carries"
    assert choose_form(source, read_settings(4, {**options, "hints": {"data/0": 2}})) is not source


def test_data_parallelism_within_its_memory_moves_gradients_once():
    model = lstm(batch=64, width=128, steps=50, is_loop=True)
    asked = model.state, model.data
    weights = sum(np.prod(leaf.shape) * 4 for leaf in jax.tree.leaves(model.state))
    by_hand = tofu.jax.partition(model.step, 8, asked, algorithm="data-parallel").memory_report().worker.needed_bytes
    made = tofu.jax.partition(model.step, 8, asked, memory_limit=by_hand, search_seconds=5)
    all_reduced = 8 * 2 * weights * 7 / 8
    assert made.plan.communication_bytes <= all_reduced
    assert made.memory_report().worker.needed_bytes <= by_hand


def test_memory_of_one_device_is_that_of_the_step_as_it_is_written():
    with in_double_precision():
        step, state, data = nested()
        split, free = (tofu.jax.partition(step, 4, (state, data), replicate=one) for one in ("small", "free"))
        assert split.memory_report().one_device == free.memory_report().one_device


def test_memory_reports_count_what_workers_add_up():
    model = lstm(batch=64, width=128, layers=1, steps=50, is_loop=True)
    made = tofu.jax.partition(model.step, 8, (model.state, model.data), replicate="free")
    summed = [tensor for tensor in made.partition.problem.graph.tensors if tensor.addends > 1]
    report = made.memory_report(compile=True)
    assert report.worker.temporaries_bytes > sum(tensor.size_bytes for tensor in summed)
    assert report.worker.temporaries_bytes == pytest.approx(report.compiled.temporaries_bytes, rel=0.25)


def test_workers_that_compute_in_each_step_of_a_loop_take_their_time_in_each():
    model = lstm(batch=64, width=128, steps=50, is_loop=True)
    asked = model.state, model.data
    split, free = (tofu.jax.partition(model.step, 2, asked, replicate=one) for one in ("small", "free"))
    plain, moved = (one.simulate("8xH100") for one in (split, free))
    assert moved.seconds > 0.5 * plain.seconds


# What is moved, and what is not: functions of (weights, rows) whose loop carries c.


def loop(term, start=None, dtype=None):
    def step(w, xs):
        first = jnp.zeros(w.shape, dtype or w.dtype) if start is None else start(w)
        return lax.scan(lambda c, x: (c + term(w, x), None), first, xs)[0]

    return step


def product(w, x):
    return x.T @ (x @ w)


def of_layers(w, x):
    """The gradients of a scan over two layers, which are put together."""

    def loss(w, x):
        return jnp.sum(lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, w)[0])

    return jax.grad(loss)(jnp.stack([w @ w.T, w @ w.T]), x)


def no_layers(w):
    return jnp.zeros((2, len(w), len(w)), w.dtype)


def widen(product, *dtypes):
    """A product of numbers of fewer bits, converted step by step, and scaled after each."""
    for dtype in dtypes:
        product = product.astype(dtype) * np.asarray(0.5, dtype)
    return product


MOVED = {
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
    "padded": loop(lambda w, x: jnp.pad(product(w, x)[1:], ((1, 0), (0, 0)))),
    "a column each": loop(lambda w, x: jnp.concatenate([product(w[:, :2], x), product(w[:, 2:], x)], 1)),
    "looked up": loop(lambda w, x: jnp.zeros_like(w).at[jnp.abs(8 * x[:, 0]).astype(int)].add(x @ w)),
    "layers put together": loop(of_layers, start=no_layers),
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


KEPT = {
    "layers put together and read": loop(lambda w, x: (g := of_layers(w, x)) / jnp.max(g), start=no_layers),
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


@pytest.mark.parametrize("name", MOVED)
def test_a_sum_is_moved_behind_its_loop(name):
    with in_double_precision():
        arguments = draw(8, 4), draw(5, 6, 8)
        step = read_step(MOVED[name], arguments).native.step
        moved = hoist_sums(step)
        assert sum(count_carries(moved)) < sum(count_carries(step))
        assert any(one.loops_summed for one in moved.walk())
        for one, other in zip(moved.compute(arguments), step.compute(arguments), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
        assert [moved.types[x].dtype for x in moved.outputs] == [step.types[x].dtype for x in step.outputs]


@pytest.mark.parametrize("name", KEPT)
def test_others_stay_in_their_loop(name):
    with in_double_precision():
        dtype = "float16" if name == "half" else "float64"
        assert hoist_sums(read_step(KEPT[name], (draw(8, 4, dtype=dtype), draw(5, 6, 8))).native.step) is None


@pytest.mark.parametrize("name", MOVED)
def test_such_sums_are_those_of_one_device(name):
    with in_double_precision():
        arguments = draw(8, 4), draw(5, 6, 8)
        wanted = jax.tree.leaves(jax.jit(MOVED[name])(*arguments))
        for workers, hints in ((2, {}), (2, {"xs": 1}), (3, {"xs": 1})):  # rows of each product on several workers
            made = tofu.jax.partition(MOVED[name], workers, arguments, replicate="free", hints=hints, uneven="free")
            for one, other in zip(jax.tree.leaves(made(*arguments)), wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_products_of_half_precision_are_added_up_in_the_type_of_the_carry():
    """As they are where the loop carries the sum: 4,096 ones are no more than 256 in bfloat16."""
    step = loop(lambda w, x: product(w.astype("bfloat16"), x.astype("bfloat16")).astype("float32"), dtype="float32")
    w, xs = jnp.ones((8, 4)), jnp.full((4096, 2, 8), 0.25)
    (summed,) = hoist_sums(read_step(step, (w, xs)).native.step).compute((w, xs))
    np.testing.assert_array_equal(summed, step(w, xs))
    made = tofu.jax.partition(step, 2, (w, xs), replicate="free")
    np.testing.assert_array_equal(made(w, xs), step(w, xs))
