"""Arguments and states that the workers cannot share equally: each has a part rounded up, and together they are read as one array."""

from __future__ import annotations

import copy
import pickle
import re
from importlib import import_module
from itertools import product
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tofu.jax
from tests.jax.test_uneven import differ
from tests.models.jax.language import TRANSFORMER_SIZES, transformer
from tofu.errors import ShapeError, UnsupportedError
from tofu.jax import UnevenArray
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.engine import make_engine
from tofu.jax.frontend.read_step import read_step
from tofu.jax.frontend.versions import in_double_precision
from tofu.jax.planning import plan_step, read_settings

ROOT = Path(__file__).parents[2]
RANDOM = np.random.RandomState(0)
WIDE = {"w": RANDOM.randn(64, 256), "v": RANDOM.randn(256, 40), "b": RANDOM.randn(40)}
STATE = WIDE, jax.tree.map(np.zeros_like, WIDE)
BATCH = RANDOM.randn(16, 64), np.eye(40)[RANDOM.randint(0, 40, 16)]


def train(state, batch):
    """A classifier with momentum. 64 KiB and more have its weights alone, of sizes that 3 does not divide."""
    params, momentum = state
    x, y = batch
    loss = lambda p: -(jax.nn.log_softmax(jax.nn.relu(x @ p["w"]) @ p["v"] + p["b"]) * y).sum(1).mean()  # noqa: E731
    value, gradients = jax.value_and_grad(loss)(params)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return (jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum), value


def evaluate(params, batch):
    """What the classifier says."""
    return (jax.nn.relu(batch[0] @ params["w"]) @ params["v"] + params["b"]).argmax(1)


def is_uneven(tree):
    return [isinstance(leaf, UnevenArray) for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize(("workers", "uneven", "donated"), [(3, None, 0), (5, "free", ()), (6, "free", 0)])
def test_a_state_of_odd_sizes_trains_in_parts(workers, uneven, donated):
    with in_double_precision():
        step = tofu.jax.partition(train, workers, (STATE, BATCH), uneven=uneven, donate_argnums=donated)
        state, expected = step.place(STATE), STATE
        assert any(is_uneven(state))
        for _ in range(2):
            (state, loss), (expected, value) = step(state, BATCH), jax.jit(train)(expected, BATCH)
        assert differ((state, loss), (expected, value)) == []
        assert is_uneven(state) == is_uneven(step.place(STATE))
        memory = step.memory_report(compile=True)
        assert memory.worker.arguments_bytes == memory.compiled.arguments_bytes
        assert memory.worker.arguments_bytes < 1.2 * memory.one_device.arguments_bytes / workers
        moved = count_traffic(step.lower(state, BATCH).compile().as_text(), workers).total
        assert moved <= 1.02 * step.plan.communication_bytes


def test_only_what_each_worker_would_have_all_of_else_is_uneven_by_default():
    default, none = (tofu.jax.partition(train, 3, (STATE, BATCH), uneven=uneven) for uneven in (None, "none"))
    state = default.place(STATE)
    assert {name: isinstance(leaf, UnevenArray) for name, leaf in state[0].items()} == {
        "w": True,
        "v": False,
        "b": False,
    }
    assert not any(is_uneven(none.place(STATE)))
    assert default.plan.communication_bytes < none.plan.communication_bytes / 3
    assert not any(is_uneven(tofu.jax.partition(train, 4, (STATE, BATCH)).place(STATE)))


def test_a_transformer_moves_and_holds_what_the_document_says():
    text = (ROOT / "docs/jax.md").read_text()
    counts, *rows = re.findall(
        r"^\| (?:devices|Tofu|with equal parts alone) \| ([^|]+ \| [^|]+ \| .+) \|$", text, re.M
    )[:3]
    model = transformer(12, **TRANSFORMER_SIZES)
    source = read_step(model.step, (model.state, model.data))
    given = sum(tensor.size_bytes for tensor in source.graph.tensors if tensor.is_given)
    for row, uneven in zip(rows, ("needed", "none"), strict=True):
        for workers, told in zip(counts.split(" | "), row.split(" | "), strict=True):
            settings = read_settings(int(workers), {"cache": False})
            plan = plan_step(source, settings, engine=make_engine(uneven)).plan
            assert (
                f"{plan.communication_bytes / 1e9:.2f}, {max(plan.worker_bytes) / given:.0%}".replace("%", " %") == told
            )


def test_parts_are_read_as_one_array():
    w = WIDE["w"]
    with in_double_precision():
        step = tofu.jax.partition(train, 3, (STATE, BATCH))
        array = step.place(STATE)[0]["w"]
        assert (array.shape, array.dtype, array.ndim, array.size) == (w.shape, w.dtype, 2, w.size)
        assert repr(array) == "<array of float64, shape (64, 256), in parts of shape (64, 86)>"
        for read in (array, jnp.asarray(array), jax.device_get(array), array.block_until_ready()):
            np.testing.assert_array_equal(read, w)
        for shard in array.addressable_shards:
            np.testing.assert_array_equal(shard.data, w[shard.index])
            assert shard.data.shape == array.parts.shard_shape(w.shape) == (64, 86)
        with pytest.raises(ShapeError, match=r"lies\. Give that"):
            array.parts.shard_shape((64, 255))
        np.testing.assert_array_equal(jnp.where(array > 0, 2 - array, array[0]), np.where(w > 0, 2 - w, w[0]))
        np.testing.assert_array_equal(np.asarray(array, "float32"), w.astype("float32"))


@pytest.mark.parametrize("workers", [3, 4], ids=["unequal parts", "equal parts"])
def test_what_is_placed_shares_no_memory_with_arrays_of_numpy(workers):
    """JAX's CPUs read these where they are, if they begin where a cache line does."""
    cells = np.zeros(64 * 512 + 16, "float32")
    first = -cells.ctypes.data % 64 // 4
    x = cells[first : first + 64 * 512].reshape(64, 512)
    step = tofu.jax.partition(lambda w, x: (w * 2.0, x.sum()), workers, (x, x))
    placed = step.place(x), step.place(x, 1), step.place_part(x)
    x[:] = 1
    assert [float(np.max(one)) for one in placed] == [0, 0, 0]


def test_numbers_of_python_are_placed_with_the_types_that_they_have():
    """A copy of NumPy's would have a type that gives way to none."""
    state = {"w": np.zeros((4, 6), "float32"), "count": 3}
    step = tofu.jax.partition(lambda state: jax.tree.map(lambda x: x * 2, state), 2, (state,))
    assert step.place(state)["count"].weak_type
    assert not step.place(state)["w"].weak_type


def test_cells_that_two_parts_have_stay_together():
    """Devices compute them apart, from sums that they add up in another order."""
    optimizer = optax.adam(1e-3)

    def fit(state, batch):
        (params, moments), (x, y) = state, batch
        gradients = jax.grad(lambda p: ((jnp.tanh(x @ p["w"]) @ p["v"] + p["b"] - y) ** 2).mean())(params)
        updates, moments = optimizer.update(gradients, moments, params)
        return optax.apply_updates(params, updates), moments

    params, batch = jax.tree.map(np.float32, (WIDE, BATCH))
    step = tofu.jax.partition(fit, 5, ((params, optimizer.init(params)), batch), uneven="free")
    state = step.place((params, optimizer.init(params)))
    for _ in range(60):
        state = step(state, batch)
    uneven = [leaf for leaf in jax.tree.leaves(state[0]) if isinstance(leaf, UnevenArray)]
    assert uneven
    for array in uneven:
        distance = np.abs(np.asarray(array.joined) - array.parts.join(np.asarray(array))).max()
        assert distance <= 1e-6 * np.abs(np.asarray(array)).max()


def test_what_is_returned_beside_the_state_may_be_the_state_or_an_argument():
    """The state comes out as it went in, and arguments as they lie, from which nothing moves."""
    given = {"w": RANDOM.randn(14, 4), "v": RANDOM.randn(10)}, RANDOM.randn(7)

    def step(state, x):
        following = {"w": state["w"] * 2, "v": state["v"]}
        return following, (following["w"], following, state, x)

    with in_double_precision():
        made = tofu.jax.partition(step, 3, given, uneven="free")
        placed = tuple(map(made.place, given, (0, 1)))
        found = made(*placed)
        assert differ(found, step(*given)) == []
        assert is_uneven(found[0]) == is_uneven(placed[0])
        assert is_uneven(found[1][2:]) == is_uneven(placed)
        moved = count_traffic(made.lower(*given).compile().as_text(), 3).total
        assert moved <= 1.02 * made.plan.communication_bytes


def test_it_is_an_array_in_loops_comparisons_and_copies():
    x = RANDOM.randn(7, 3).astype("float32")
    made = tofu.jax.partition(lambda x: x * 2.0, 3, (x,), uneven="free", hints={"x": 0}, donate_argnums=0)
    array = made.place(x)
    assert isinstance(array, UnevenArray)
    np.testing.assert_array_equal(list(array), x)
    assert len(array) == 7
    assert (array == made.place(x)).all()
    assert not (array != x).any()
    assert bool((x == array).all())
    with pytest.raises(TypeError, match="unhashable"):
        hash(array)
    with pytest.raises(AttributeError, match=r"no attribute 'sharding'\. jnp\.asarray"):
        array.sharding  # noqa: B018
    np.testing.assert_array_equal(array.T.reshape(-1), x.T.reshape(-1))
    np.testing.assert_array_equal(array.at[0].set(0)[0], np.zeros(3))
    np.testing.assert_array_equal(array // 2 + x % array, x // 2)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array)), x)
    copies = copy.copy(array), copy.deepcopy(array)
    made(array)
    for one in copies:
        np.testing.assert_array_equal(one, x)
        assert one.parts == array.parts


def test_every_way_to_cut_joins_and_is_read_again():
    step = lambda x: x * 2.0  # noqa: E731
    for shape in ((7, 5), (4, 7), (11, 5)):
        x = RANDOM.randn(*shape).astype("float32")
        for cut in product((0, 1), repeat=2):
            made = tofu.jax.partition(step, 4, (x,), uneven="free", hints={"x": cut})
            placed = made.place(x, 0)
            np.testing.assert_array_equal(placed, x)
            np.testing.assert_array_equal(made(placed), 2 * x)
            assert np.prod(made.shardings[0].shard_shape(shape)) < x.size / 2


def test_steps_within_a_traced_function_take_and_return_the_whole():
    with in_double_precision():
        step = tofu.jax.partition(train, 3, (STATE, BATCH))
        two = lambda train: jax.jit(lambda state: jax.lax.scan(lambda s, _: train(s, BATCH), state, length=2))  # noqa: E731
        found, expected = two(step)(STATE), two(train)(STATE)
        assert not any(is_uneven(found))
        assert differ(found, expected) == []


def test_another_step_takes_the_state_as_it_lies():
    with in_double_precision():
        step = tofu.jax.partition(train, 3, (STATE, BATCH))
        state, _ = step(step.place(STATE), BATCH)
        beside = step.also(evaluate, (state[0], BATCH), part=lambda state: state[0])
        assert beside.shardings[0]["w"] == step.shardings[0][0]["w"]
        params = jax.tree.map(np.asarray, state[0])
        np.testing.assert_array_equal(beside(state[0], BATCH), evaluate(params, BATCH))


@pytest.mark.parametrize("workers", [5, 4])
def test_a_state_goes_on_with_other_devices(workers):
    """Of unequal parts or of equal ones, from NumPy's arrays, as a checkpoint has them, or as it lies."""
    with in_double_precision():
        before, after = (tofu.jax.partition(train, count, (STATE, BATCH)) for count in (3, workers))
        state, _ = before(before.place(STATE), BATCH)
        expected, _ = jax.jit(train)(jax.jit(train)(STATE, BATCH)[0], BATCH)
        for given in (state, jax.tree.map(np.asarray, state)):
            assert differ(after(after.place(given), BATCH)[0], expected) == []
        assert differ(after(state, BATCH)[0], expected) == []


def test_a_state_is_written_and_read_part_by_part(tmp_path, monkeypatch):
    """As `examples/jax/shards.py` does, whose directory several processes share."""
    monkeypatch.syspath_prepend(str(ROOT / "examples/jax"))
    shards = import_module("shards")
    before, after = (tofu.jax.partition(train, workers, (STATE, BATCH)) for workers in (3, 5))
    state, _ = before(before.place(STATE), BATCH)
    shards.save(tmp_path, 1, state)
    found = shards.restore(tmp_path, 1, state, after.shardings[0])
    assert differ(found, state) == []
    assert is_uneven(found) == is_uneven(after.place(STATE))


def test_the_compiled_step_takes_the_parts_side_by_side():
    with in_double_precision():
        step = tofu.jax.partition(train, 3, (STATE, BATCH))
        state, batch = step.place(STATE), step.place(BATCH, 1)
        joined = jax.tree.map(lambda x: getattr(x, "joined", x), (state, batch))
        compiled = step.lower(state, batch).compile()
        found = jax.tree.leaves(compiled(*joined))
        assert differ(found, jax.tree.map(lambda x: getattr(x, "joined", x), jax.tree.leaves(step(state, batch)))) == []


def test_what_was_given_up_is_named():
    step = tofu.jax.partition(train, 3, (STATE, BATCH), donate_argnums=0)
    state = step.place(STATE)
    step(state, BATCH)
    with pytest.raises(UnsupportedError, match="was donated to an earlier call"):
        step(state, BATCH)


def test_random_keys_that_come_out_beside_the_state_may_be_uneven_too():
    keys = jax.random.split(jax.random.key(0), 7)
    step = lambda keys, x: (jax.vmap(lambda key: jax.random.split(key)[0])(keys), x, x + 1)  # noqa: E731
    x = RANDOM.randn(7, 5).astype("float32")
    made = tofu.jax.partition(step, 3, (keys, x), uneven="free", hints={"keys": 0, "x": 0})
    found, expected = made(made.place(keys), made.place(x, 1)), step(keys, x)
    np.testing.assert_array_equal(jax.random.key_data(jnp.asarray(found[0])), jax.random.key_data(expected[0]))
    assert differ(found[1:], expected[1:]) == []
    assert is_uneven(found) == [True, True, False]
    for shard in found[0].addressable_shards:
        np.testing.assert_array_equal(*map(jax.random.key_data, (shard.data, expected[0][shard.index])))


def test_what_cannot_be_asked_for():
    with pytest.raises(UnsupportedError, match="uneven is 'all', and not one of 'none', 'needed', 'free'"):
        tofu.jax.partition(train, 3, (STATE, BATCH), uneven="all")
