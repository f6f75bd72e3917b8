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
from tests.jax.comparison import assert_close, check_step, check_training
from tests.models.jax.plain import STEPS
from tofu.jax import JAX, read_step
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.frontend.versions import in_double_precision, in_precision
from tofu.jax.verify.campaign import load_cases
from tofu.plan import Plan
from tofu.report.console import print_to_text
from tofu.report.plan_table import print_partition
from tofu.search import find_strategies


def draw_hints(step, arguments, workers, seed, share=0.5):
    graph = read_step(step, arguments).graph
    rng = random.Random(seed)
    hints = {}
    for operator, access in zip(graph.operators, find_strategies(graph, JAX.front_end), strict=True):
        first_axes = (
            (a, extent) for a, extent in zip(access.axes, access.extents, strict=True) if a not in access.outer_axes
        )
        axes = [axis for axis, extent in first_axes if extent % workers == 0]
        if axes and rng.random() < share:
            hints[operator.name] = rng.choice(axes)
    return hints


def test_a_plan_for_one_worker_moves_nothing(tmp_path):
    """Serve scripts that count devices and find one."""
    with in_double_precision():
        step, state, data = STEPS["recurrence"]("float64")
        made = tofu.jax.partition(step, 1, (state, data))
        assert made.plan.communication_bytes == 0
        check_training(made, step, state, data)
        for plan in (None, Plan.from_json(made.plan.to_json())):
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
    assert "Round by round" not in page
    told = print_to_text(lambda console: print_partition(console, made.partition, None))
    assert told.startswith("1 worker: 0 B moved per training step\n")


def test_gathers_of_random_keys_are_not_split_along_the_table():
    step = lambda keys, indices: keys[indices]  # noqa: E731
    keys, indices = jax.random.split(jax.random.key(0), 8), jnp.array([3, 1, 0, 6])
    assert find_strategies(read_step(step, (keys, indices)).graph, JAX.front_end)[-1].axes == ("i0",)
    check_step(step, 2, keys, indices, rtol=0, atol=0)


WORKERS = (2, 3, 4, 6, 8)
KINDS = ("small", "free", "random")


@pytest.mark.parametrize(
    ("name", "workers", "kind"),
    [(name, WORKERS[(i + 2 * j) % 5], KINDS[j]) for i, name in enumerate(STEPS) for j in (i % 2, 2)],
)
def test_training_equals_one_device(name, workers, kind):
    with in_double_precision():
        step, state, data = STEPS[name](jnp.float64)
        asked = {"replicate": kind}
        if kind == "random":
            asked = {"hints": draw_hints(step, (state, data), workers, f"{name} {workers}", share=0.2)}
        check_training(tofu.jax.partition(step, workers, (state, data), search_seconds=1, **asked), step, state, data)


@pytest.mark.parametrize("name", load_cases())
def test_every_primitive_runs_in_parts(name):
    case = load_cases()[name]
    with in_precision("float64" in name):
        arguments = tuple(case.draw_inputs())
        if hints := draw_hints(case.function, arguments, 2, f"{name} 0", share=0.8):
            check_step(case.function, 2, *arguments, hints=hints, rtol=2e-4, atol=2e-4)


AXES = [axes for axes in product(["m0", "n1", "k0"], repeat=2) if "k0" in axes]
LAYOUTS = list(product([0, 1], repeat=2))


@pytest.mark.parametrize(
    ("axes", "layout"), [(axes, layout) for n, axes in enumerate(AXES) for layout in LAYOUTS[n % 2 :: 2]]
)
def test_partial_sums_move_the_planned_bytes(axes, layout):
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
def test_partial_results_in_uneven_parts_move_the_planned_bytes(reducer, axes, layout):
    """Use 3 x 2 workers; only the first case has equal parts."""
    x = np.random.default_rng(0).choice([-1.0, 1.0, 2.0], (9, 50, 24)).astype(np.float32)
    step = lambda x: getattr(jnp, reducer)(x * 1.0, axis=2) * 2.0  # noqa: E731
    name = f"reduce_{reducer}"
    plan = tofu.jax.partition(step, 6, (x,), hints={name: axes}).plan
    plan = replace(plan, tensors={**plan.tensors, name: layout})
    made = tofu.jax.partition(step, 6, (x,), plan=plan)
    assert count_traffic(made.lower(x).compile().as_text(), 6).total <= 1.02 * made.plan.communication_bytes
    np.testing.assert_array_equal(np.asarray(made(x)), jax.jit(step)(x))


def differentiate_pooling(weights, x):
    _, pull_back = jax.vjp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (5, 1), (1, 1), "VALID"), x)
    return pull_back(weights)[0]


@pytest.mark.parametrize(
    ("axes", "layout"),
    [(("i0", "i1"), (0, None)), (("i1", "i0"), (None, 0)), *product([("i0", "i0")], product([None, 0], repeat=2))],
)
def test_overlapping_windows_are_summed_in_parts(axes, layout):
    """Check that replicas agree to the last bit: up to four workers add to an element, in one order everywhere."""
    weights, x = (np.random.default_rng(seed).normal(size=(n, 64)).astype(np.float32) for seed, n in enumerate((8, 12)))
    x[4:8] += 8
    names = tofu.jax.partition(differentiate_pooling, 4, (weights, x)).plan.operators
    (name,) = (
        name for name in names if name.endswith("select_and_scatter_add")
    )  # scopes differ between versions of JAX
    plan = tofu.jax.partition(differentiate_pooling, 4, (weights, x), hints={name: axes}).plan
    plan = replace(plan, tensors={**plan.tensors, name: layout})
    made = tofu.jax.partition(differentiate_pooling, 4, (weights, x), plan=plan)
    assert made.plan.tensors[name] == layout
    assert count_traffic(made.lower(weights, x).compile().as_text(), 4).total <= made.plan.communication_bytes
    found = made(weights, x)
    replicas: dict[str, list[np.ndarray]] = {}
    for shard in found.addressable_shards:
        replicas.setdefault(str(shard.index), []).append(np.asarray(shard.data))
    for first, *equal in replicas.values():
        for replica in equal:
            np.testing.assert_array_equal(first, replica)
    assert_close(found, jax.jit(differentiate_pooling)(weights, x))


@pytest.mark.parametrize(("name", "more"), list(zip(STEPS, (1.0, 1.2, 1.2, 1.0), strict=True)))
def test_plans_within_a_memory_limit_move_the_planned_bytes(name, more):
    step, state, data = STEPS[name](jnp.float32)
    split = tofu.jax.partition(step, 4, (state, data))
    limit = int(more * split.memory_report().worker.needed_bytes)
    made = tofu.jax.partition(step, 4, (state, data), memory_limit=limit)
    assert made.memory_report().worker.needed_bytes <= limit
    assert made.plan.optimality.startswith("the best within")
    moved = count_traffic(made.lower(state, data).compile().as_text(), 4)
    assert 0.9 <= moved.total / made.plan.communication_bytes <= 1.02


@pytest.mark.parametrize("step", [jnp.sum, lambda x: (x - x.mean()) ** 2])
def test_small_steps_are_split_although_replication_is_free(step):
    x = jnp.arange(4096.0).reshape(64, 64) / 4096
    made = tofu.jax.partition(step, 4, (x,))
    assert made.plan.optimality == "the best plan found; nothing is proved"
    assert made.shardings[0].shard_shape(x.shape) == (16, 64)
    assert_close(made(x), step(x), 1e-4)


def test_a_small_loop_whose_results_are_split_runs():
    """XLA for CPUs compiles it into one kernel, in which a worker cannot look up its number."""

    def step(a):
        return lax.scan(lambda c, _: (c + c.sum(), c), a, None, length=3)

    check_step(step, 2, jnp.ones((2, 2)))


def test_a_loop_from_which_xla_removes_the_position_of_a_worker_runs():
    def step(x, times):
        return lax.scan(lambda c, t: (c.at[1:7].set((c * t)[1:7] / t), None), x, times)[0]

    check_step(step, 2, jnp.ones((8, 8)), jnp.ones(3), hints={"x": 0})
    check_step(
        lambda x, times: lax.scan(lambda c, t: (jnp.concatenate([c[:1], c[1:]]) * t, None), x, times)[0],
        2,
        jnp.ones((8, 8)),
        jnp.ones(3),
    )
