import copy
import pickle
from importlib import import_module
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tofu.jax
from tests.jax.comparison import list_differences
from tofu.errors import ShapeError
from tofu.jax import UnevenArray
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.frontend.versions import in_double_precision

ROOT = Path(__file__).parents[2]
RANDOM = np.random.RandomState(0)
WIDE = {"w": RANDOM.randn(64, 256), "v": RANDOM.randn(256, 40), "b": RANDOM.randn(40)}
STATE = WIDE, jax.tree.map(np.zeros_like, WIDE)
BATCH = RANDOM.randn(16, 64), np.eye(40)[RANDOM.randint(0, 40, 16)]


def train(state, batch):
    """Train a classifier with momentum. Only its weights have 64 KiB. Their extents are no multiples of 3."""
    params, momentum = state
    x, y = batch
    loss = lambda p: -(jax.nn.log_softmax(jax.nn.relu(x @ p["w"]) @ p["v"] + p["b"]) * y).sum(1).mean()  # noqa: E731
    value, gradients = jax.value_and_grad(loss)(params)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return (jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum), value


def evaluate(params, batch):
    return (jax.nn.relu(batch[0] @ params["w"]) @ params["v"] + params["b"]).argmax(1)


def is_uneven(tree):
    return [isinstance(leaf, UnevenArray) for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize(("workers", "uneven", "donated"), [(3, None, 0), (5, "free", ())])
def test_a_state_with_odd_extents_trains_in_shards(workers, uneven, donated):
    with in_double_precision():
        step = tofu.jax.partition(train, workers, (STATE, BATCH), uneven=uneven, donate_argnums=donated)
        state, expected = step.place(STATE), STATE
        assert any(is_uneven(state))
        for _ in range(2):
            (state, loss), (expected, value) = step(state, BATCH), jax.jit(train)(expected, BATCH)
        assert list_differences((state, loss), (expected, value)) == []
        assert is_uneven(state) == is_uneven(step.place(STATE))
        memory = step.memory_report(compile=True)
        assert memory.worker.arguments_bytes == memory.compiled.arguments_bytes
        assert memory.worker.arguments_bytes < 1.2 * memory.one_device.arguments_bytes / workers
        moved = count_traffic(step.lower(state, BATCH).compile().as_text(), workers).total
        assert moved <= 1.02 * step.plan.communication_bytes


def test_by_default_only_otherwise_replicated_arguments_are_uneven():
    default, none = (tofu.jax.partition(train, 3, (STATE, BATCH), uneven=uneven) for uneven in (None, "none"))
    state = default.place(STATE)
    assert [name for name, leaf in state[0].items() if isinstance(leaf, UnevenArray)] == ["w"]
    assert not any(is_uneven(none.place(STATE)))
    assert default.plan.communication_bytes < none.plan.communication_bytes / 3
    assert not any(is_uneven(tofu.jax.partition(train, 4, (STATE, BATCH)).place(STATE)))


def test_a_message_names_the_uneven_arrays_of_the_state(caplog):
    def step(state, x):
        return state - 0.1 * (x @ state).mean(), x.sum()

    state, x = jnp.ones((512, 256)), jnp.ones((64, 512))
    for options, messages in (({}, 1), ({"uneven": "needed"}, 0), ({"uneven": "none"}, 0)):
        caplog.clear()
        tofu.jax.partition(step, 3, (state, x), **options)
        assert len(caplog.messages) == messages
        assert all("cannot share state equally" in text and 'uneven="none"' in text for text in caplog.messages)


def test_shards_are_read_as_one_array():
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
def test_placed_arrays_share_no_memory_with_numpy(workers):
    """Use an aligned array, which JAX's CPUs read in place."""
    cells = np.zeros(64 * 512 + 16, "float32")
    first = -cells.ctypes.data % 64 // 4
    x = cells[first : first + 64 * 512].reshape(64, 512)
    step = tofu.jax.partition(lambda w, x: (w * 2.0, x.sum()), workers, (x, x))
    placed = step.place(x), step.place(x, 1), step.place_part(x)
    x[:] = 1
    assert [float(np.max(copied)) for copied in placed] == [0, 0, 0]


def test_shared_elements_of_two_shards_do_not_diverge():
    """Train long enough for different orders of addition to show."""
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


def test_results_may_be_the_state_or_an_argument():
    given = {"w": RANDOM.randn(14, 4), "v": RANDOM.randn(10)}, RANDOM.randn(7)

    def step(state, x):
        following = {"w": state["w"] * 2, "v": state["v"]}
        return following, (following["w"], following, state, x)

    with in_double_precision():
        made = tofu.jax.partition(step, 3, given, uneven="free")
        placed = tuple(map(made.place, given, (0, 1)))
        found = made(*placed)
        assert list_differences(found, step(*given)) == []
        assert is_uneven(found[0]) == is_uneven(placed[0])
        assert is_uneven(found[1][2:]) == is_uneven(placed)
        moved = count_traffic(made.lower(*given).compile().as_text(), 3).total
        assert moved <= 1.02 * made.plan.communication_bytes


def test_uneven_arrays_behave_like_arrays():
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
    for copied in copies:
        np.testing.assert_array_equal(copied, x)
        assert copied.parts == array.parts


@pytest.mark.parametrize("workers", [5, 4])
def test_a_state_moves_to_other_devices(workers):
    with in_double_precision():
        before, after = (tofu.jax.partition(train, count, (STATE, BATCH)) for count in (3, workers))
        state, _ = before(before.place(STATE), BATCH)
        expected, _ = jax.jit(train)(jax.jit(train)(STATE, BATCH)[0], BATCH)
        for given in (state, jax.tree.map(np.asarray, state)):
            assert list_differences(after(after.place(given), BATCH)[0], expected) == []
        assert list_differences(after(state, BATCH)[0], expected) == []


def test_a_state_is_saved_and_restored_shard_by_shard(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples/jax"))
    shards = import_module("shards")
    with in_double_precision():
        before, after = (tofu.jax.partition(train, workers, (STATE, BATCH)) for workers in (3, 5))
        state, _ = before(before.place(STATE), BATCH)
        shards.save(tmp_path, 1, state)
        found = shards.restore(tmp_path, 1, state, after.shardings[0])
        assert list_differences(found, state) == []
        assert is_uneven(found) == is_uneven(after.place(STATE))
        other = before.also(evaluate, (state[0], BATCH), part=lambda state: state[0])
        assert other.shardings[0]["w"] == before.shardings[0][0]["w"]
        np.testing.assert_array_equal(other(state[0], BATCH), evaluate(jax.tree.map(np.asarray, state[0]), BATCH))
