"""What a partitioned step offers, beside its numbers: placing, donating, plans in and out, meshes, and errors."""

from __future__ import annotations

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.test_run import as_numbers, check_close
from tests.models.jax.plain import STEPS
from tofu.errors import DeviceError, PlanError, ShapeError, UnsupportedError
from tofu.jax.backend.collectives import RULES
from tofu.jax.frontend.versions import in_precision
from tofu.program.collectives import AllReduce


def test_state_lies_as_the_plan_says_and_comes_back_so():
    step, state, data = STEPS["perceptron"](jnp.float32)
    made = tofu.jax.partition(step, 4, (state, data), donate_argnums=0)
    placed = made.place(state)
    weight = placed[0][0]["w"]
    assert weight.addressable_shards[0].data.size == weight.size // 4
    after, _ = made(placed, data)
    assert after[0][0]["w"].sharding == weight.sharding
    assert weight.is_deleted()
    with pytest.raises(UnsupportedError, match=r"state/0/0/b was donated to an earlier call"):
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
    made.report(tmp_path / "plan.html")  # the same as `save_report`
    page = (tmp_path / "plan.html").read_text()
    assert "<title>step: 2 workers</title>" in page
    assert "arguments per worker, at most" in page
    assert "memory per worker" not in page
    assert "<h2>How long</h2>" in page
    assert "<th>memory</th>" in page  # of the simulation, with what a step holds for a while
    moved = [int(count) for count in re.findall(r'data-bytes="(\d+)"', page)]
    assert sum(moved) == made.plan.communication_bytes
    operator = max(made.plan.operators, key=len)
    table = made.why(operator)
    shown = " ".join(table.split())  # it may be broken into lines
    assert shown.startswith(f"{operator}, split at every step along")
    assert re.search(r"It is at \S+plain\.py:\d+\.$", shown)
    assert "(as planned)" in table
    with pytest.raises(PlanError, match="nowhere"):
        made.why("nowhere")


def test_shapes_are_enough_and_a_scan_compiles_to_one_loop():
    step, state, data = STEPS["recurrence"](jnp.float32)
    shapes = jax.eval_shape(lambda *x: x, state, data)
    made = tofu.jax.partition(step, 4, shapes)
    assert made.lower(*shapes).as_text().count("stablehlo.while") == 4


def test_what_is_lowered_is_compiled_and_called_like_the_step():
    """Of shapes, once; it takes and returns trees, and gives up what is donated, as that of jax.jit does."""

    def train(state, data):
        return {name: w - 0.1 * data["x"] @ w for name, w in state.items()}, data["x"].sum()

    state, data = {"up": jnp.arange(4096.0).reshape(64, 64)}, {"x": jnp.eye(64)}
    made = tofu.jax.partition(train, 4, (state, data), donate_argnums=0, hints={"state/up": 1})
    lowered = made.lower(*jax.eval_shape(lambda *x: x, state, data))
    assert "jit_train" in lowered.as_text()
    compiled = lowered.compile()
    placed = made.place(state)
    after, total = compiled(placed, made.place(data, argument=1))
    np.testing.assert_array_equal(after["up"], state["up"] - 0.1 * state["up"])
    assert (float(total), placed["up"].is_deleted(), after["up"].sharding) == (64, True, made.shardings[0]["up"])


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


@pytest.mark.parametrize("replicate", ["small", "free"])
@pytest.mark.parametrize("name", STEPS)
def test_jax_shows_that_replicas_are_alike(name, replicate):
    step, state, data = STEPS[name](jnp.float32)
    made = tofu.jax.partition(step, 4, (state, data), replicate=replicate)
    # of the border of a window that several devices read, cell by cell, it cannot tell
    assert made.check_replicas() == ((name, replicate) != ("convolutions", "free"))


def test_jax_does_not_show_it_of_partial_sums(monkeypatch):
    step, state, data = STEPS["perceptron"](jnp.float32)
    made = tofu.jax.partition(step, 4, (state, data))
    monkeypatch.setitem(RULES, AllReduce, lambda self, one, x: x)
    assert not made.check_replicas()


def test_constants_and_results_that_are_numbers():
    table = jnp.arange(64.0).reshape(8, 8)
    made = tofu.jax.partition(lambda x: (x @ table, 3.0, x), 4, (jnp.ones((8, 8)),))
    product, three, same = made(jnp.ones((8, 8)))
    np.testing.assert_array_equal(product, jnp.ones((8, 8)) @ table)
    assert float(three) == 3.0
    np.testing.assert_array_equal(same, jnp.ones((8, 8)))


NUMBERS = {"number": 0.1, "array": np.float32(0.1), "weak array": jnp.asarray(0.1)}


@pytest.mark.parametrize("given", NUMBERS)
@pytest.mark.parametrize("planned", NUMBERS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_python_numbers_and_arrays_promote_types_as_under_jit(dtype, planned, given):
    def step(x, rate):
        return x - rate * x, rate * 2, (x * rate).sum()

    x = jnp.arange(1, 9, dtype=dtype)
    made = tofu.jax.partition(step, 2, (x, NUMBERS[planned]))
    if dtype == "bfloat16" and (planned == "array") != (given == "array"):
        with pytest.raises(
            ShapeError, match=rf"rate is .* planned for .* of float32.*{__name__.rpartition('.')[2]}.py:\d+ it computes"
        ):
            made(x, NUMBERS[given])
        return
    for found, expected in zip(made(x, NUMBERS[given]), jax.jit(step)(x, NUMBERS[given]), strict=True):
        assert (found.dtype, found.weak_type) == (expected.dtype, expected.weak_type)
        np.testing.assert_allclose(np.float32(found), np.float32(expected), rtol=1e-2)


def test_constants_keep_the_values_that_were_traced():
    buffer, table = np.ones((8, 4), "float32"), jnp.ones((8, 4))
    inner = jax.jit(lambda x: x + buffer)
    made = tofu.jax.partition(lambda x: inner(x) + table, 2, (jnp.zeros((8, 4)),))
    once = made(jnp.zeros((8, 4)))
    buffer += 10
    table.delete()
    for x in (np.zeros((8, 4), "float32"), once * 0):  # of another kind each, so that JAX traces the program again
        np.testing.assert_array_equal(made(x), once)
    np.testing.assert_array_equal(jax.jit(made)(once * 0), once)


def test_each_device_holds_its_shard_of_a_constant_alone():
    table = np.arange(512 * 512, dtype="float32").reshape(512, 512)
    x = jax.ShapeDtypeStruct((512, 512), "float32")
    made = tofu.jax.partition(lambda x: x + table, 8, (x,))
    worker = made.memory_report().worker
    assert worker.constants_bytes == table.nbytes // 8
    assert made.plan.worker_bytes == (worker.arguments_bytes + worker.constants_bytes,) * 8
    lowered = made.lower(x)
    compiled = lowered.compile()
    assert "512,512" not in compiled.as_text()
    np.testing.assert_array_equal(compiled(made.place(table, argument=0)), 2 * table)


def test_constants_may_lie_on_several_devices():
    mesh = jax.make_mesh((8,), ("rows",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    far = jax.device_put(jnp.arange(32.0).reshape(8, 4), jax.devices()[5])
    table, keys = (jax.device_put(x, rows) for x in (far, jax.random.split(jax.random.key(3), 8)))

    draw = jax.vmap(lambda key: jax.random.bits(key, (2,)))
    x = jnp.ones((4, 4))
    found = tofu.jax.partition(lambda x: (x @ table.T, x @ far.T, draw(keys)), 4, (x,))(x)
    product = np.asarray(x) @ np.asarray(far).T
    for one, other in zip(found, (product, product, draw(keys)), strict=True):
        np.testing.assert_array_equal(one, other)


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


def test_shardings_of_a_compiled_step_are_left_out_and_that_is_said():
    x = jnp.ones((4, 8))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("x",))
    split, whole = (jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*names)) for names in (("x",), ()))
    step = jax.jit(lambda x: x * 2, in_shardings=split, out_shardings=whole)
    with pytest.warns(
        UserWarning, match="The shardings that jax.jit was given for <lambda> are left out: the plan chooses"
    ):
        made = tofu.jax.partition(step, 2, (x,))
    np.testing.assert_array_equal(np.asarray(made(x)), np.asarray(x * 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tofu.jax.partition(jax.jit(lambda x: x * 2, in_shardings=whole), 2, (x,))


def test_a_sharding_constraint_is_left_out_and_that_is_said():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("x",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    x = jnp.arange(32.0).reshape(4, 8)
    with pytest.warns(
        UserWarning, match=r"The sharding constraint at .*test_partitioned_step\.py:\d+ is left out: the plan chooses"
    ):
        made = tofu.jax.partition(lambda x: lax.with_sharding_constraint(x * 2, split) + 1, 2, (x,))
    np.testing.assert_array_equal(made(x), x * 2 + 1)


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


@pytest.mark.parametrize("double", [False, True])
def test_a_step_runs_in_the_precision_in_which_it_was_planned(double):
    step = lambda x: (x * 0.1, x.sum() + jnp.arange(3).sum())  # noqa: E731
    with in_precision(double):
        x = np.arange(32, dtype=np.float64 if double else np.float32).reshape(8, 4)
        made, expected = tofu.jax.partition(step, 4, (x,)), jax.device_get(jax.jit(step)(x))
    with in_precision(not double):
        found = made(made.place(x))
        assert made.memory_report(compile=True).compiled.results_bytes > 0
        assert made.also(step, (x,))(x)[0].dtype == x.dtype
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14 if double else 1e-6)
        assert one.dtype == other.dtype


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
    with pytest.raises(DeviceError, match=r"is listed 2 times\. Each worker needs a separate device"):
        tofu.jax.partition(step, jax.devices()[:1] * 2, (state, data))
    made = tofu.jax.partition(step, 2, (state, data))
    for argument in (2, -1, "state"):
        with pytest.raises(UnsupportedError, match=r"argument is .*; it must be one of the step's arguments 0 to 1"):
            made.place(data, argument)
    with pytest.raises(DeviceError, match="workers is"):
        tofu.jax.partition(step, "all", (state, data))
    with pytest.raises(DeviceError, match=r"workers= contains 0, not a device\. Pass devices from jax\.devices\(\)"):
        tofu.jax.partition(step, [0, 1], (state, data))
    with pytest.raises(DeviceError, match=r"workers is 0 \(an int\); it takes a whole number of devices from 1 on"):
        tofu.jax.partition(step, 0, (state, data))
    with pytest.raises(UnsupportedError, match=r"4 values were given by position\. Put the last 2 into a tuple"):
        tofu.jax.partition(step, 2, state, data)
    for name in ("mesh", "devices", "ngpus"):
        with pytest.raises(
            UnsupportedError, match=rf"{name}= \(workers= takes a number of devices, a jax\.sharding\.Mesh"
        ):
            tofu.jax.partition(step, 2, (state, data), **{name: 2})
    with pytest.raises(UnsupportedError, match=r"hint= \(did you mean hints=\?\)"):
        tofu.jax.partition(step, 2, (state, data), hint={"state/0/2/w": 1})
    with pytest.raises(UnsupportedError, match="donate_argnums has 2"):
        tofu.jax.partition(step, 2, (state, data), donate_argnums=(2,))
    for wrong in ("state", 1.0, [None]):
        with pytest.raises(
            UnsupportedError, match=r"donate_argnums has ('s'|1\.0|None); the step has arguments 0 to 1"
        ):
            tofu.jax.partition(step, 2, (state, data), donate_argnums=wrong)
    assert tofu.jax.partition(step, 2, (state, data), donate_argnums=None).memory_report().worker.overwritten_bytes == 0
    with pytest.raises(UnsupportedError, match="donate_argnums has -3"):
        tofu.jax.partition(step, 2, (state, data), donate_argnums=-3)
    with pytest.raises(
        PlanError, match=r"dimension 1 has extent 24, already in 1 part; step 1 needs 5 more of each, all equal"
    ):
        tofu.jax.partition(step, 5, (state, data), hints={"state/0/2/w": 1})
    made = tofu.jax.partition(step, 2, (state, data))
    with pytest.raises(ShapeError, match=r"data/0 has shape \(8, 160\), and the step was planned for \(48, 160\)"):
        made(state, (data[0][:8], data[1]))
    with pytest.raises(ShapeError, match=r"planned for other arguments\. Missing: data/0, data/1\. Call"):
        made(state)
    with pytest.raises(ShapeError, match=r"data/0 is complex64, and the step was planned for float32\. Convert it"):
        made(state, (data[0] * 1j, data[1]))
    with pytest.raises(
        ShapeError, match=r"is not like state, argument 0 of the step\. Missing: .*, say, by place\(batch, argument=1\)"
    ):
        made.place(data)
    with pytest.raises(ShapeError, match=r"data/0 has shape \(5, 160\), and the step was planned for \(48, 160\)"):
        made.place((data[0][:5], data[1]), argument=1)
    with pytest.raises(UnsupportedError, match=r"the type float0.* hold no data.*:\n  - broadcast_in_dim"):
        tofu.jax.partition(jax.grad(lambda x: x.sum() * 1.0, allow_int=True), 2, (jnp.arange(4),))
    with pytest.raises(UnsupportedError, match=r"example_args is .* and not the tuple of the step's arguments"):
        tofu.jax.partition(step, 2, {"state": state, "data": data})


def test_arguments_in_the_place_of_workers_are_told_at_once():
    with pytest.raises(DeviceError, match=r"arguments come third: tofu\.jax\.partition\(step, 8, \(state, batch\)\)"):
        tofu.jax.partition(lambda state, batch: state, (jnp.ones(4), jnp.ones(4)))
