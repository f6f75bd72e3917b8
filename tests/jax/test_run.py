"""Partitioned steps against the steps that they were made of, on virtual devices."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.models.jax import as_numbers
from tests.models.jax.plain import STEPS
from tofu.jax import JAX, UnevenArray, read_step
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.frontend.versions import in_double_precision, in_precision
from tofu.jax.verify.campaign import load_cases
from tofu.plan import Plan
from tofu.report.console import print_to_text
from tofu.report.plan_table import print_partition
from tofu.search import find_strategies


def draw_hints(step, arguments, workers, seed, share=0.5):
    """Axes for some of the operators, that all workers can share equally."""
    graph = read_step(step, arguments).graph
    rng = random.Random(seed)
    hints = {}
    for operator, access in zip(graph.operators, find_strategies(graph, JAX.front_end), strict=True):
        axes = [axis for axis, extent in zip(access.axes, access.extents, strict=True) if extent % workers == 0]
        if axes and rng.random() < share:
            hints[operator.name] = rng.choice(axes)
    return hints


def check_steps(made, step, state, data):
    """Three steps, in double precision, are those of one device, and the state comes out where it was placed."""
    ours, whole = made.place(state), jax.jit(step)
    for _ in range(3):
        state, loss = whole(state, data)
        ours, our_loss = made(ours, data)
    assert float(loss) == pytest.approx(float(our_loss), rel=1e-10)
    laid = [x.parts if isinstance(x, UnevenArray) else x.sharding for x in jax.tree.leaves(ours)]
    assert laid == jax.tree.leaves(made.shardings[0])
    for one, other in zip(as_numbers(ours), as_numbers(state), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def check_close(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_one_worker_is_one_device(tmp_path):
    """A script that counts devices may find one: nothing is moved, and a plan, its memory and its numbers are there all the same."""
    with in_double_precision():
        step, state, data = STEPS["recurrence"]("float64")
        made = tofu.jax.partition(step, 1, (state, data))
        assert made.plan.communication_bytes == 0
        check_steps(made, step, state, data)
        for plan in (None, Plan.from_json(made.plan.to_json())):  # the one that is remembered, and one that was saved
            again = tofu.jax.partition(step, 1, (state, data), plan=plan, donate_argnums=0)
            assert again.plan.tensors == made.plan.tensors
        report = again.memory_report()
        assert report.worker.arguments_bytes == report.one_device.arguments_bytes
    assert str(made.plan).startswith("1 worker, 0 B moved per training step, ")
    assert "on 1 device, 0 bytes moved" in repr(made)
    assert report.worker.name == "the worker"
    made.save_report(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert "Planned for 1 worker.<" in page.replace("\n", "")
    assert "Step by step" not in page
    told = print_to_text(lambda console: print_partition(console, made.partition, None))
    assert told.startswith("1 worker: 0 B move per training step\n")


def test_random_keys_that_are_looked_up_are_not_added_up():
    """Copies that look up a part each have numbers for the rest, which keys are none."""
    step = lambda keys, indices: keys[indices]  # noqa: E731
    keys, indices = jax.random.split(jax.random.key(0), 8), jnp.array([3, 1, 0, 6])
    assert find_strategies(read_step(step, (keys, indices)).graph, JAX.front_end)[-1].axes == ("i0",)
    found, expected = (
        jax.random.key_data(made(keys, indices)) for made in (tofu.jax.partition(step, 2, (keys, indices)), step)
    )
    np.testing.assert_array_equal(found, expected)


WORKERS = (2, 3, 4, 6, 8)
KINDS = ("small", "free", "random")


@pytest.mark.parametrize(
    ("name", "workers", "kind"),
    [(name, WORKERS[(i + 2 * j) % 5], KINDS[j]) for i, name in enumerate(STEPS) for j in range(3)],
)
def test_steps_in_double_precision_equal_those_of_one_device(name, workers, kind):
    """With the plans that are searched, where small tensors or all may be replicated, and with random ones."""
    with in_double_precision():
        step, state, data = STEPS[name](jnp.float64)
        asked = {"replicate": kind}
        if kind == "random":
            asked = {"hints": draw_hints(step, (state, data), workers, f"{name} {workers}", share=0.2)}
        check_steps(tofu.jax.partition(step, workers, (state, data), search_seconds=1, **asked), step, state, data)


@pytest.mark.parametrize("name", load_cases())
def test_every_equation_runs_in_parts(name):
    case = load_cases()[name]
    with in_precision("float64" in name):
        check_in_parts(name, case.function, case.draw_inputs())


def check_in_parts(name, function, arguments):
    """Compare a random plan for two workers with one device."""
    wanted = as_numbers(jax.jit(function)(*arguments))
    hints = draw_hints(function, tuple(arguments), 2, f"{name} 0", share=0.8)
    if hints:
        made = tofu.jax.partition(function, 2, tuple(arguments), hints=hints)
        for ours, theirs in zip(as_numbers(made(*arguments)), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4, err_msg=str(hints))


@pytest.mark.parametrize("layout", list(product([0, 1], repeat=2)))
@pytest.mark.parametrize("axes", [axes for axes in product(["m0", "n1", "k0"], repeat=2) if "k0" in axes])
def test_sums_of_partial_results_move_what_the_plan_counts(axes, layout):
    """However the shards of the sum lie beside what workers have computed. Numbers are whole: any order of adding gives the same."""
    x, w = (np.random.default_rng(seed).integers(-8, 8, (512, 512)).astype(np.float32) for seed in range(2))
    made = tofu.jax.partition(lambda x, w: (x @ w) * 2.0, 4, (x, w), hints={"dot_general": axes, "mul": layout})
    assert (made.plan.operators["dot_general"], made.plan.tensors["mul"]) == (axes, layout)
    moved = count_traffic(made.lower(x, w).compile().as_text(), 4).total
    assert moved == made.plan.communication_bytes
    np.testing.assert_array_equal(np.asarray(made(x, w)), x @ w * 2.0)


@pytest.mark.parametrize(
    ("reducer", "axes", "layout"),
    [
        ("max", ("i2", "i2"), (0, 1)),
        ("min", ("i1", "i2"), (1, 1)),
        ("prod", ("i2", "i2"), (None, None)),
        ("sum", ("i1", "i2"), (None, None)),
        ("sum", ("i1", "i2"), (None, 0)),
        ("sum", ("i2", "i1"), (1, None)),
    ],
)
def test_partial_results_move_what_the_plan_counts_in_parts_that_overlap_too(reducer, axes, layout):
    """Largest and smallest numbers and products as sums do. Six workers lie as 3 x 2; the first case has equal parts."""
    x = np.random.default_rng(0).choice([-1.0, 1.0, 2.0], (9, 50, 24)).astype(np.float32)
    step = lambda x: getattr(jnp, reducer)(x * 1.0, axis=2) * 2.0  # noqa: E731
    name = f"reduce_{reducer}"
    plan = tofu.jax.partition(step, 6, (x,), hints={name: axes}).plan
    plan = replace(plan, tensors={**plan.tensors, name: layout})
    made = tofu.jax.partition(step, 6, (x,), plan=plan)
    assert count_traffic(made.lower(x).compile().as_text(), 6).total <= 1.02 * made.plan.communication_bytes
    np.testing.assert_array_equal(np.asarray(made(x)), jax.jit(step)(x))


@pytest.mark.parametrize(("axes", "layout"), [(("i0", "i1"), (0, None)), (("i1", "i0"), (None, 0))])
def test_windows_that_overlap_are_added_up_in_parts(axes, layout):
    """Each of the workers that have a shard adds up some of it, and copies what the others have added up."""

    def step(weights, x):
        _, pull_back = jax.vjp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (5, 1), (1, 1), "VALID"), x)
        return pull_back(weights)[0]

    weights, x = (np.random.default_rng(seed).normal(size=(n, 64)).astype(np.float32) for seed, n in enumerate((8, 12)))
    (name,) = (n for n in tofu.jax.partition(step, 4, (weights, x)).plan.operators if n.endswith("scatter_add"))
    plan = tofu.jax.partition(step, 4, (weights, x), hints={name: axes}).plan
    made = tofu.jax.partition(step, 4, (weights, x), plan=replace(plan, tensors={**plan.tensors, name: layout}))
    assert count_traffic(made.lower(weights, x).compile().as_text(), 4).total <= made.plan.communication_bytes
    np.testing.assert_allclose(np.asarray(made(weights, x)), jax.jit(step)(weights, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", list(product([None, 0], repeat=2)))
def test_replicas_of_a_sum_are_the_same_to_the_last_digit(layout):
    """Up to four workers add to a cell, and each replica would get their numbers in an order of its own."""

    def step(weights, x):
        _, pull_back = jax.vjp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (5, 1), (1, 1), "VALID"), x)
        return pull_back(weights)[0]

    weights, x = (np.random.default_rng(seed).normal(size=(n, 64)).astype(np.float32) for seed, n in enumerate((8, 12)))
    x[4:8] += 8  # the largest of most windows
    names = tofu.jax.partition(step, 4, (weights, x)).plan.operators
    # Its scope is another in each version of JAX.
    (name,) = (name for name in names if name.endswith("select_and_scatter_add"))
    plan = tofu.jax.partition(step, 4, (weights, x), hints={name: ["i0", "i0"]}).plan
    edited = replace(plan, tensors={**plan.tensors, name: layout})
    made = tofu.jax.partition(step, 4, (weights, x), plan=edited)
    assert made.plan.tensors[name] == layout
    found = made(weights, x)
    parts: dict[str, list[np.ndarray]] = {}
    for shard in found.addressable_shards:
        parts.setdefault(str(shard.index), []).append(np.asarray(shard.data))
    for first, *others in parts.values():
        for other in others:
            np.testing.assert_array_equal(first, other)
    np.testing.assert_allclose(np.asarray(found), jax.jit(step)(weights, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("replicate", ["small", "free"])
@pytest.mark.parametrize("name", STEPS)
def test_what_is_moved_is_what_the_plan_counts(name, replicate):
    """No more, for a region that several equations read is fetched once; XLA's own text is counted."""
    step, state, data = STEPS[name](jnp.float32)
    made = tofu.jax.partition(step, 8, (state, data), replicate=replicate)
    moved = count_traffic(made.lower(state, data).compile().as_text(), 8)
    assert 0.9 <= moved.total / made.plan.communication_bytes <= 1.02


@pytest.mark.parametrize(("name", "more"), list(zip(STEPS, (1.0, 1.2, 1.2, 1.0), strict=True)))
def test_plans_within_a_memory_limit_move_what_they_count(name, more):
    step, state, data = STEPS[name](jnp.float32)
    split = tofu.jax.partition(step, 4, (state, data))
    limit = int(more * split.memory_report().worker.needed_bytes)
    made = tofu.jax.partition(step, 4, (state, data), memory_limit=limit)
    assert made.memory_report().worker.needed_bytes <= limit
    assert made.plan.optimality.startswith("the best within")
    moved = count_traffic(made.lower(state, data).compile().as_text(), 4)
    assert 0.9 <= moved.total / made.plan.communication_bytes <= 1.02


@pytest.mark.parametrize("step", [jnp.sum, lambda x: (x - x.mean()) ** 2])
def test_where_every_worker_could_compute_all_each_computes_a_part(step):
    x = jnp.arange(4096.0).reshape(64, 64) / 4096
    made = tofu.jax.partition(step, 4, (x,))
    assert made.plan.optimality == "the best plan found; nothing is proved"
    assert made.shardings[0].shard_shape(x.shape) == (16, 64)
    check_close(made(x), step(x))


@pytest.mark.parametrize(("workers", "hints"), [(2, {"params": 1}), (3, {"params": 1}), (8, {})])
def test_cells_that_several_equations_move_to_the_same_workers_move_once(workers, hints):
    """The gates of a GRU are slices of two products, whose gradients pad the same values in the same places; on 8 workers some of these
    results lie in smaller parts than others.
    """

    def loss(params, data):
        def cell(h, x):
            a, b = x @ params["x"], h @ params["h"]
            reset, update = (jax.nn.sigmoid(a[:, n : n + 24] + b[:, n : n + 24]) for n in (0, 24))
            return (1 - update) * jnp.tanh(a[:, 48:] + reset * b[:, 48:]) + update * h, None

        xs, target = data
        return jnp.mean((lax.scan(cell, 0.0 * target, xs)[0] - target) ** 2)

    def step(params, data):
        value, gradients = jax.value_and_grad(loss)(params, data)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value

    with in_double_precision():
        rng = np.random.default_rng(4)
        params = {"x": rng.normal(size=(24, 72)), "h": rng.normal(size=(24, 72))}
        data = rng.normal(size=(3, 7, 24)), rng.normal(size=(7, 24))
        hints = {f"{name}/{one}": dimension for name, dimension in hints.items() for one in params}
        made = tofu.jax.partition(step, workers, (params, data), hints=hints)
        check_steps(made, step, params, data)
        moved = count_traffic(made.lower_leaves().compile().as_text(), workers).total
    assert moved <= 1.02 * made.plan.communication_bytes
