"""Plans as sharding constraints: the same numbers, whatever XLA's partitioner makes of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from benchmarks.jax_models.plain import STEPS
from benchmarks.shared.random_plans import random_plan
from tests.jax.test_run import check_steps, draw_hints
from tofu.errors import UnsupportedError
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.frontend.versions import in_double_precision


@pytest.mark.parametrize(("workers", "kind"), [(2, "small"), (4, "random"), (6, "random"), (8, "free")])
@pytest.mark.parametrize("name", STEPS)
def test_steps_equal_those_of_one_device(name, workers, kind):
    with in_double_precision():
        step, state, data = STEPS[name](jnp.float64)
        asked = {"replicate": kind}
        if kind == "random":
            asked = {"hints": draw_hints(step, (state, data), workers, f"{name} {workers}", share=0.3)}
        made = tofu.jax.partition(step, workers, (state, data), backend="gspmd", search_seconds=1, **asked)
        check_steps(made, step, state, data)


@pytest.mark.parametrize("name", ["attention", "convolutions"])
def test_what_xla_is_wrong_about_is_not_asked_of_it(name):
    """Under these plans its partitioner, left to itself, adds partial sums of gradients up more than once, or others."""
    with in_double_precision():
        step, state, data = STEPS[name](jnp.float64)
        searched = tofu.jax.partition(step, 8, (state, data), search_seconds=1)
        plan = random_plan(searched.partition, 0)
        made = tofu.jax.partition(step, 8, (state, data), backend="gspmd", plan=plan)
        check_steps(made, step, state, data)


@pytest.mark.parametrize("padding", [(-1, 0, 1), (-2, -2, 2)])
def test_cells_that_are_cut_off_between_padded_ones(padding):
    """XLA's partitioner, left to divide the dimension that they lie along, ends the process."""
    step = lambda x: jnp.sin(lax.pad(jnp.tanh(x), 0.0, [padding, (0, 0, 0)]))  # noqa: E731
    x = jnp.arange(48.0).reshape(8, 6)
    made = tofu.jax.partition(step, 4, (x,), backend="gspmd", hints={"x": 0, "pad": "i1", "tanh": "i0", "sin": "i0"})
    np.testing.assert_allclose(made(x), step(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "padding", "workers", "hints"),
    [
        ((7, 16), [(0, 1, 0), (0, 0, 0)], 4, {"pad": "i0", "sin": ["i1", "i0"], "x": [1, None]}),
        ((10, 4), [(0, 0, 0), (1, 1, 1)], 3, {"pad": "i0", "x": None}),
    ],
)
def test_padding_of_parts_that_are_not_equal(shape, padding, workers, hints):
    """Left to choose layouts itself, XLA's partitioner reads other cells."""
    step = lambda x: lax.pad(jnp.sin(x) if "sin" in hints else x, 0.0, padding)  # noqa: E731
    x = jnp.arange(float(np.prod(shape))).reshape(shape)
    made = tofu.jax.partition(step, workers, (x,), backend="gspmd", hints=hints, replicate="free")
    np.testing.assert_allclose(made(x), step(x), atol=1e-6)


def test_groups_of_a_convolution_whose_window_is_the_image():
    """XLA's partitioner, left to divide the groups, reads those of others, without an error."""
    step = lambda x, f: lax.conv_general_dilated(x, f, (1,), "VALID", feature_group_count=4)  # noqa: E731
    x, f = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((3, 12, 3), (8, 3, 3)))
    for backend in ("shard_map", "gspmd"):
        made = tofu.jax.partition(step, 2, (x, f), backend=backend, hints={"conv_general_dilated": "g"})
        np.testing.assert_allclose(made(x, f), step(x, f), rtol=1e-4, atol=1e-5)


def test_a_scatter_of_parts_that_are_not_equal():
    """Left to choose layouts itself, XLA's partitioner gives other numbers under this plan."""
    step = lambda x, u: jnp.sin(lax.top_k(x, 8)[0].at[..., 0].add(jnp.cos(u)))  # noqa: E731
    x, u = jnp.arange(56.0).reshape(7, 1, 8), jnp.arange(7.0).reshape(7, 1)
    searched = tofu.jax.partition(step, 8, (x, u))
    made = tofu.jax.partition(step, 8, (x, u), backend="gspmd", plan=random_plan(searched.partition, 0))
    np.testing.assert_allclose(made(x, u), step(x, u), atol=1e-5)


@pytest.mark.parametrize("name", ["add", "max", "set"])
def test_a_scatter_of_one_slice(name):
    """XLA's partitioner, left to divide what is looked up, joins the slice with that of a worker's part, and moves neither inside."""
    step = lambda x, i: getattr(x.at[i], name)(100.0)  # noqa: E731
    x = jnp.arange(24.0).reshape(6, 4)
    operator = {"set": "scatter"}.get(name, f"scatter-{name}")
    for i in (1, np.int32(4), np.array([-2])):
        made = tofu.jax.partition(step, 3, (x, i), backend="gspmd", hints={"x": None, operator: "v0"})
        assert made.plan.operators[operator] == ("v0",)
        np.testing.assert_array_equal(made(x, i), step(x, i))


def test_the_largest_of_cells_some_of_which_are_no_numbers():
    """XLA's own maximum over devices leaves NaN out."""
    x = np.arange(24.0, dtype=np.float32).reshape(6, 4)
    x[4, 1], x[0, 2], x[5, 3] = np.nan, -np.nan, np.inf
    rows = np.array([0, 1, 1, 2, 3, 0])
    steps = {
        "reduce_max": ("i0", lambda x: jnp.max(x, 0)),
        "reduce_min": ("i0", lambda x: jnp.min(x, 0)),
        "scatter-max": ("u0", lambda x: jax.ops.segment_max(x, rows, num_segments=4)),
    }
    for name, (axis, step) in steps.items():
        made = tofu.jax.partition(step, 2, (x,), backend="gspmd", hints={name: axis})
        np.testing.assert_array_equal(made(x), step(x))


def test_slices_of_parts_that_are_not_equal():
    """Left to choose layouts itself, XLA's partitioner makes a program under this plan that its own verifier refuses."""
    step = lambda x: lax.dynamic_update_slice(jnp.sin(x), x[:3, :3] * 2, (jnp.argmax(x) % 5, 1))  # noqa: E731
    x = jnp.arange(12.0).reshape(4, 3)
    searched = tofu.jax.partition(step, 4, (x,), replicate="free")
    made = tofu.jax.partition(step, 4, (x,), backend="gspmd", plan=random_plan(searched.partition, 6))
    np.testing.assert_allclose(made(x), step(x), atol=1e-6)


def test_xla_divides_a_product_as_the_plan_says():
    """Along the sum, whose parts are then added up: other collectives, and other numbers of bytes, than along rows."""
    x, w = (jax.ShapeDtypeStruct((512, 512), jnp.float32) for _ in range(2))
    texts = {}
    for axis, layouts in {"k0": (1, 0), "m0": (0, 1)}.items():
        hints = {"dot_general": axis, "x": layouts[0], "w": layouts[1]}
        made = tofu.jax.partition(lambda x, w: (x @ w) * 2.0, 4, (x, w), backend="gspmd", hints=hints)
        assert (made.backend, made.plan.operators["dot_general"]) == ("gspmd", (axis, axis))
        texts[axis] = made.lower(x, w).compile().as_text()
        assert count_traffic(texts[axis], 4).total >= made.plan.communication_bytes
    assert "all-gather" in texts["m0"]
    assert "all-reduce" in texts["k0"] or "reduce-scatter" in texts["k0"]
    assert "all-reduce" not in texts["m0"]


def test_an_evaluation_has_the_backend_of_its_step():
    step, state, data = STEPS["perceptron"](jnp.float32)
    made = tofu.jax.partition(step, 4, (state, data), backend="gspmd")
    other = made.also(lambda state, data: step(state, data)[1], (state, data))
    assert other.backend == "gspmd"
    assert float(other(state, data)) == pytest.approx(float(step(state, data)[1]), rel=1e-5)


def test_a_backend_that_there_is_not():
    step, state, data = STEPS["perceptron"](jnp.float32)
    with pytest.raises(UnsupportedError, match=r"backend is 'pmap', and not one of 'shard_map', 'gspmd'"):
        tofu.jax.partition(step, 4, (state, data), backend="pmap")


def test_between_processes_on_cpus_it_is_refused(monkeypatch):
    step, state, data = STEPS["perceptron"](jnp.float32)
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    with pytest.raises(UnsupportedError, match=r"reduce-scatter between processes on CPUs gives wrong sums"):
        tofu.jax.partition(step, 4, (state, data), backend="gspmd")
