"""Partitioned steps against the steps that they were made of, on virtual devices."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.steps import STEPS
from tofu.errors import DeviceError, PlanError, ShapeError, UnsupportedError
from tofu.jax import JAX, read_step
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.frontend.versions import in_double_precision
from tofu.jax.verify.cases import load_cases
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


def as_numbers(tree):
    leaves = jax.tree.leaves(tree)
    is_key = [jnp.issubdtype(x.dtype, jax.dtypes.extended) for x in leaves]
    plain = [jax.random.key_data(x) if key else x for x, key in zip(leaves, is_key, strict=True)]
    return [np.asarray(x, complex if jnp.iscomplexobj(x) else float) for x in plain]


def check_steps(made, step, state, data):
    """Three steps, in double precision, are those of one device, and the state comes out where it was placed."""
    ours, whole = made.place(state), jax.jit(step)
    for _ in range(3):
        state, loss = whole(state, data)
        ours, our_loss = made(ours, data)
    assert float(loss) == pytest.approx(float(our_loss), rel=1e-10)
    assert [x.sharding for x in jax.tree.leaves(ours)] == jax.tree.leaves(made.shardings[0])
    for one, other in zip(as_numbers(ours), as_numbers(state), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", ["small", "free", "random"])
@pytest.mark.parametrize("workers", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("name", STEPS)
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
    function, arguments = case.function, case.draw_inputs()
    wanted = as_numbers(jax.jit(function)(*arguments))
    for seed in range(2):
        hints = draw_hints(function, tuple(arguments), 2, f"{name} {seed}", share=0.8)
        if not hints:
            continue
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


@pytest.mark.parametrize("more", [1.0, 1.2])
@pytest.mark.parametrize("name", STEPS)
def test_plans_within_a_memory_limit_move_what_they_count(name, more):
    step, state, data = STEPS[name](jnp.float32)
    split = tofu.jax.partition(step, 4, (state, data))
    limit = int(more * max(split.plan.worker_bytes))
    made = tofu.jax.partition(step, 4, (state, data), memory_limit=limit)
    assert max(made.plan.worker_bytes) <= limit
    moved = count_traffic(made.lower(state, data).compile().as_text(), 4)
    assert 0.9 <= moved.total / made.plan.communication_bytes <= 1.02


def test_state_lies_as_the_plan_says_and_comes_back_so():
    step, state, data = STEPS["perceptron"](jnp.float32)
    made = tofu.jax.partition(step, 4, (state, data), donate_argnums=0)
    placed = made.place(state)
    weight = placed[0][0]["w"]
    assert weight.addressable_shards[0].data.size == weight.size // 4
    after, _ = made(placed, data)
    assert after[0][0]["w"].sharding == weight.sharding
    assert weight.is_deleted()
    with pytest.raises(UnsupportedError, match=r"state/0/0/b is no longer there: it was given up to an earlier call"):
        made(placed, data)
    again, _ = made(after, data)
    assert float(again[3]) == 2


def test_it_is_called_with_arguments_that_lie_elsewhere_and_within_other_functions():
    step, state, data = STEPS["convolutions"](jnp.float32)
    made = tofu.jax.partition(step, 2, (state, data))
    _, loss = made(state, data)
    elsewhere = jax.device_put(state, jax.devices()[7])
    on_four = tofu.jax.partition(step, 4, (state, data)).place(state)
    for given in (elsewhere, on_four):
        assert float(made(given, data)[1]) == float(loss)
    assert float(jax.jit(lambda state: made(state, data)[1])(state)) == pytest.approx(float(loss), rel=1e-6)
    assert jax.eval_shape(made, state, data)[1].shape == ()


def test_numbers_of_python_are_part_of_the_state():
    """As in flax's TrainState, which counts its steps from 0."""
    wide = np.ones((256, 128), np.float64)  # which JAX takes for float32
    step = lambda state, x: ({"w": state["w"] + x.T @ (x @ state["w"]), "count": state["count"] + 1}, x.sum())  # noqa: E731
    made = tofu.jax.partition(step, 4, ({"w": wide, "count": 0}, np.ones((64, 256), np.float32)), hints={"state/w": 1})
    state, _ = made({"w": wide, "count": 0}, np.ones((64, 256), np.float32))
    assert state["w"].sharding.is_equivalent_to(made.shardings[0]["w"], 2)
    after, _ = made(state, np.ones((64, 256), np.float32))
    assert int(after["count"]) == 2
    assert float(after["w"][0, 0]) == pytest.approx((1 + 64 * 256) ** 2, rel=1e-6)


@pytest.mark.parametrize("give", [lambda path: path, str, lambda path: path.read_text()])
def test_a_plan_is_saved_and_given_again(tmp_path, give):
    step, state, data = STEPS["convolutions"](jnp.float32)
    hints = {"params/second": 3}
    first = tofu.jax.partition(step, 2, (state, data), hints=hints)
    path = tmp_path / "plan.json"
    path.write_text(first.plan.to_json())
    again = tofu.jax.partition(step, 2, (state, data), plan=give(path))
    assert again.plan.tensors == first.plan.tensors
    assert again.plan.tensors["params/second"] == (3,)
    assert again.plan.to_json() == first.plan.to_json()
    for ours, theirs in zip(as_numbers(again(state, data)), as_numbers(first(state, data)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_plan_of_something_else_is_refused():
    """Another step, other shapes, another number of workers, hints that contradict it."""
    step, state, data = STEPS["convolutions"](jnp.float32)
    plan = tofu.jax.partition(step, 4, (state, data), hints={"params/second": 3}).plan
    with pytest.raises(PlanError, match="The plan is for 4 workers, and workers= asks for 2"):
        tofu.jax.partition(step, 2, (state, data), plan=plan)
    with pytest.raises(PlanError, match=r"data/0 is \(12, 16, 16, 8\) here and \(24, 16, 16, 8\) in the plan"):
        tofu.jax.partition(step, 4, (state, tuple(x[:12] for x in data)), plan=plan)
    other = lambda params, data: step(jax.tree.map(jnp.tanh, params), data)  # noqa: E731
    with pytest.raises(PlanError, match="The plan is of another graph"):
        tofu.jax.partition(other, 4, (state, data), plan=plan)
    with pytest.raises(PlanError, match="The plan and the hints contradict each other"):
        tofu.jax.partition(step, 4, (state, data), plan=plan, hints={"params/second": 2})


def test_a_page_and_a_table_say_why(tmp_path):
    step, state, data = STEPS["convolutions"](jnp.float32)
    made = tofu.jax.partition(step, 2, (state, data))
    made.report(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert "<title>step: 2 workers</title>" in page
    assert "arguments per worker, at most" in page
    assert "memory per worker" not in page
    moved = [int(count) for count in re.findall(r'data-bytes="(\d+)"', page)]
    assert sum(moved) == made.plan.communication_bytes
    operator = max(made.plan.operators, key=len)
    table = made.why(operator)
    assert f"{operator}, split at every step along" in " ".join(table.split())  # it may be broken into lines
    assert "(as planned)" in table
    with pytest.raises(PlanError, match="nowhere"):
        made.why("nowhere")


def test_shapes_are_enough_and_a_scan_compiles_to_one_loop():
    step, state, data = STEPS["recurrence"](jnp.float32)
    shapes = jax.eval_shape(lambda *x: x, state, data)
    made = tofu.jax.partition(step, 4, shapes)
    assert made.lower(*shapes).as_text().count("stablehlo.while") == 4


@pytest.mark.parametrize("step", [jnp.sum, lambda x: (x - x.mean()) ** 2])
def test_where_every_worker_could_compute_all_each_computes_a_part(step):
    x = jnp.arange(4096.0).reshape(64, 64) / 4096
    made = tofu.jax.partition(step, 4, (x,))
    assert made.plan.optimality == "the best plan found; nothing is proved"
    assert made.shardings[0].shard_shape(x.shape) == (16, 64)
    check_close(made(x), step(x))


@pytest.mark.parametrize("is_placed", [True, False])
def test_what_is_in_the_state_twice_may_be_donated(is_placed):
    """As an average that begins as the parameters. The state that was placed is not given up with its copy."""

    def step(state, x):
        grown = state["w"] + x @ state["w"]
        return {"w": grown, "bias": state["bias"] * 2, "average": (state["average"] + state["bias"]) / 2}, x.sum()

    bias, x = jnp.arange(15.0), jnp.ones((64, 64))  # 4 workers cannot share 15: each has all of it
    state = {"w": x, "bias": bias, "average": bias}
    wanted, _ = step(state, x)
    made = tofu.jax.partition(step, 4, (state, x), donate_argnums=0)
    assert made.shardings[0]["bias"].is_fully_replicated
    after, _ = made(made.place(state) if is_placed else state, x)
    check_close(after, wanted)
    if is_placed:
        np.testing.assert_array_equal(state["bias"], np.arange(15.0))


@pytest.mark.parametrize("argument", [0, -2, np.int64(0), (0, -2)])
def test_donated_arguments_are_counted_from_either_end(argument):
    step, state, data = STEPS["perceptron"](jnp.float32)
    made = tofu.jax.partition(step, np.int64(2), (state, data), donate_argnums=argument)
    placed = made.place(state)
    check_close(made(placed, data), jax.jit(step)(state, data))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(placed))


def test_constants_and_results_that_are_numbers():
    table = jnp.arange(64.0).reshape(8, 8)
    made = tofu.jax.partition(lambda x: (x @ table, 3.0, x), 4, (jnp.ones((8, 8)),))
    product, three, same = made(jnp.ones((8, 8)))
    np.testing.assert_array_equal(product, jnp.ones((8, 8)) @ table)
    assert float(three) == 3.0
    np.testing.assert_array_equal(same, jnp.ones((8, 8)))


def test_results_are_as_weakly_typed_as_those_of_the_step():
    def step(x, n, key):
        return (
            (x * 2, n + 1, jax.random.fold_in(key, n)),
            2.5,
            jnp.full(8, 2.0),
            jnp.zeros(8),
            x.sum(),
            n * 0.5,
        )

    arguments = jnp.ones((8, 8)), 2, jax.random.key(0)
    made = tofu.jax.partition(step, 4, arguments)
    types = [jax.tree.leaves(jax.eval_shape(function, *arguments)) for function in (made, step)]
    assert types[0] == types[1]
    assert [type_.weak_type for type_ in types[0]] == [False, True, False, True, True, False, False, True]
    weak = [x.weak_type for x in jax.tree.leaves(made(*arguments)) if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)]
    assert weak == [False, True, True, True, False, False, True]


def test_a_sharding_constraint_is_left_out_and_that_is_said():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("x",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    x = jnp.arange(32.0).reshape(4, 8)
    with pytest.warns(UserWarning, match=r"The sharding constraint at .*test_run\.py:\d+ is left out: the plan says"):
        made = tofu.jax.partition(lambda x: lax.with_sharding_constraint(x * 2, split) + 1, 2, (x,))
    np.testing.assert_array_equal(made(x), x * 2 + 1)


def check_close(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_arguments_may_lie_on_another_mesh():
    """Where they lie says nothing of the plan. `jax.make_mesh` gives explicit axes from 0.9 on."""
    step, state, data = STEPS["perceptron"](jnp.float32)
    expected = jax.jit(step)(state, data)
    mesh = jax.make_mesh((4, 2), ("rows", "columns"))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    placed = jax.device_put(data, split)
    made = tofu.jax.partition(step, mesh, (state, placed))
    assert made.plan == tofu.jax.partition(step, 8, (state, data)).plan
    check_close(made(state, placed), expected)


@pytest.mark.skipif(
    jax.__version_info__ < (0, 10), reason="the step has no types under such a mesh in earlier versions"
)
def test_another_mesh_may_be_set():
    """One with explicit axes, of which the step itself says how they split: that is left out."""
    step, state, data = STEPS["perceptron"](jnp.float32)
    expected = jax.jit(step)(state, data)
    explicit = (jax.sharding.AxisType.Explicit,)
    mesh = jax.make_mesh((8,), ("rows",), axis_types=explicit)

    def with_shardings(state, data):
        rows = jax.sharding.PartitionSpec("rows")

        def split(x):
            return jax.reshard(x, rows) + jnp.zeros(x.shape, x.dtype, out_sharding=rows)

        return step(state, jax.tree.map(split, data))

    with jax.set_mesh(mesh):
        check_close(tofu.jax.partition(step, 8, (state, data))(state, data), expected)
        with pytest.warns(UserWarning, match="The sharding constraint at"):
            made = tofu.jax.partition(with_shardings, 8, (state, data))
        check_close(made(state, data), expected)
        check_close(jax.jit(made)(state, data), expected)


def test_what_cannot_be_is_said():
    step, state, data = STEPS["perceptron"](jnp.float32)
    with pytest.raises(DeviceError, match="9 devices are asked for, and JAX has 8"):
        tofu.jax.partition(step, 9, (state, data))
    with pytest.raises(DeviceError, match=r"is given 2 times\. Each worker has a device of its own"):
        tofu.jax.partition(step, jax.devices()[:1] * 2, (state, data))
    made = tofu.jax.partition(step, 2, (state, data))
    for argument in (2, -1, "state"):
        with pytest.raises(UnsupportedError, match=r"argument is .*; the step has arguments 0 to 1"):
            made.place(data, argument)
    with pytest.raises(DeviceError, match="workers is"):
        tofu.jax.partition(step, "all", (state, data))
    with pytest.raises(DeviceError, match=r"workers is 1; .* jax\.jit runs a step on one device"):
        tofu.jax.partition(step, 1, (state, data))
    with pytest.raises(UnsupportedError, match=r"hint= \(did you mean hints=\?\)"):
        tofu.jax.partition(step, 2, (state, data), hint={"state/0/2/w": 1})
    with pytest.raises(UnsupportedError, match="donate_argnums has 2"):
        tofu.jax.partition(step, 2, (state, data), donate_argnums=(2,))
    with pytest.raises(UnsupportedError, match="donate_argnums has -3"):
        tofu.jax.partition(step, 2, (state, data), donate_argnums=-3)
    with pytest.raises(
        PlanError, match=r"dimension 1 has extent 24, already in 1 part; step 1 needs 5 more of each, all equal"
    ):
        tofu.jax.partition(step, 5, (state, data), hints={"state/0/2/w": 1})
    made = tofu.jax.partition(step, 2, (state, data))
    with pytest.raises(ShapeError, match=r"data/0 has shape \(8, 160\), and the step was planned for \(48, 160\)"):
        made(state, (data[0][:8], data[1]))
    with pytest.raises(ShapeError, match="planned for arguments like"):
        made(state)
    with pytest.raises(ShapeError, match=r"data/0 is complex64, and the step was planned for float32\. Convert it"):
        made(state, (data[0] * 1j, data[1]))
    with pytest.raises(ShapeError, match=r"The batch, say, is placed by place\(batch, argument=1\)"):
        made.place(data)
    with pytest.raises(ShapeError, match=r"data/0 has shape \(5, 160\), and the step was planned for \(48, 160\)"):
        made.place((data[0][:5], data[1]), argument=1)
    with pytest.raises(UnsupportedError, match=r"example_args is .* and not the tuple of the step's arguments"):
        tofu.jax.partition(step, 2, {"state": state, "data": data})


@pytest.mark.parametrize("backend", ["shard_map", "gspmd"])
@pytest.mark.parametrize("workers", [2, 4])
def test_a_window_that_begins_beyond_the_end_is_moved_inside(workers, backend):
    """XLA joins two dynamic slices, that of the step and that of a worker's part, and moves neither inside."""
    x, update = (np.arange(48.0, dtype=np.float32).reshape(8, 6) + n for n in (0, 100))
    for begin in (-3, 0, 3, 5, 1000):

        def step(x, update, begin):
            window = lax.dynamic_slice(x * 2, (begin, begin), (3, 2))
            return window, lax.dynamic_update_slice(x * 3, update[:3, :2], (begin, begin))

        for hints in (
            {},
            {"dynamic_slice": None},
            {"dynamic_slice": None, "mul": [1] + [None] * (workers // 2 - 1)},
            {"dynamic_update_slice": None},
        ):
            made = tofu.jax.partition(step, workers, (x, update, np.int32(begin)), backend=backend, hints=hints)
            for ours, whole in zip(made(x, update, np.int32(begin)), jax.jit(step)(x, update, begin), strict=True):
                np.testing.assert_array_equal(ours, whole)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int32", "bool"])
def test_the_largest_over_workers_is_that_of_one_device(dtype):
    """Where one of them has NaN, too, which XLA's maximum over devices leaves out."""
    with in_double_precision():
        x = np.random.default_rng(3).normal(size=(64, 6)) * 100
        x[5, 1], x[40, 2], x[63, 3], x[0, 3], x[:, 4] = np.nan, -np.nan, np.inf, np.nan, -np.inf
        x = jnp.asarray(np.nan_to_num(x) if dtype in ("int32", "bool") else x).astype(dtype)
        for largest in (lambda x: jnp.max(x, 0), lambda x: jnp.min(x, 0)):
            for axis in ("i0", "i1"):
                names = tofu.jax.partition(largest, 2, (x,), search_seconds=1).plan.operators
                hints = {name: axis for name in names if name.startswith("reduce_m")}
                try:
                    made = tofu.jax.partition(largest, 2, (x,), hints=hints)
                except PlanError:
                    continue
                np.testing.assert_array_equal(np.asarray(made(x), float), np.asarray(jax.jit(largest)(x), float))
        ids = np.arange(64, dtype=np.int32) % 3

        def segments(x):
            return jax.ops.segment_max(x, ids, num_segments=3)

        if dtype != "bool":
            made = tofu.jax.partition(segments, 2, (x,), hints={"scatter-max": "u0"})
            np.testing.assert_array_equal(np.asarray(made(x), float), np.asarray(jax.jit(segments)(x), float))


def test_truths_are_looked_up_in_parts():
    table, rows = np.random.default_rng(1).random((8, 6)) > 0.5, np.arange(8)[::-1].astype(np.int32)

    def lines(table, rows):
        return table[rows]

    whole = jax.jit(lines)(table, rows)
    for axis in ("v0", "w1", "i0"):
        made = tofu.jax.partition(lines, 2, (table, rows), hints={"gather": axis})
        np.testing.assert_array_equal(made(table, rows), whole)


@pytest.mark.parametrize("backend", ["shard_map", "gspmd"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32"])
def test_a_table_may_be_longer_than_its_indices_can_say(dtype, backend):
    """The first row of the second worker's part is 300: no number of eight bits."""
    table, indices = np.arange(1200, dtype=np.float32).reshape(600, 2), np.array([1, 2, 99, 5, 0, 127, 2, 3], dtype)
    lookups = [lambda x, n: jnp.take(x, n, axis=0, mode="clip")]
    if dtype != "int8":  # to which JAX itself would add 600
        lookups += [lambda x, n: jnp.take(x, n, axis=0, mode="fill"), lambda x, n: x.at[n].add(1.0)]
        lookups += [lambda x, n: x.at[n].get(mode="promise_in_bounds")]
    for look_up in lookups:
        operators = read_step(look_up, (table, indices)).graph.operators
        (name,) = (operator.name for operator in operators if re.search("gather|scatter", operator.name))
        made = tofu.jax.partition(look_up, 2, (table, indices), backend=backend, hints={name: "v0"})
        np.testing.assert_array_equal(made(table, indices), jax.jit(look_up)(table, indices))


def test_positions_are_counted_before_they_are_rounded():
    """300 + 257 is not 300 + 256, which 257 is in a type of eight digits; so it is beyond 2^24 in one of 24."""
    for dtype, extent in ((jnp.bfloat16, 3000), (jnp.float16, 12000)):

        def count(x, dtype=dtype, extent=extent):
            return lax.iota(dtype, extent), x * 2

        made = tofu.jax.partition(count, 4, (np.ones(8, np.float32),), hints={"iota": "i0"})
        ours, whole = (np.asarray(f(np.ones(8, np.float32))[0], float) for f in (made, jax.jit(count)))
        np.testing.assert_array_equal(ours, whole)


@pytest.mark.parametrize("backend", ["shard_map", "gspmd"])
@pytest.mark.parametrize("workers", [2, 3, 6])
def test_fourier_transforms_of_what_was_gathered_along_the_last_dimension(workers, backend):
    x = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)

    @jax.grad
    def step(x):
        return jnp.sum(jnp.abs(jnp.fft.rfftn(x)) ** 2 * jnp.arange(4))

    made = tofu.jax.partition(step, workers, (x,), backend=backend)
    np.testing.assert_allclose(made(x), jax.jit(step)(x), rtol=1e-5, atol=1e-4)
