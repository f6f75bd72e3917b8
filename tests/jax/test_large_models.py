import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.jax.comparison import assert_close, check_step

pytest.importorskip("optax", reason="it is not installed")
from tests.models.jax.large import MODELS
from tests.models.jax.large.graph import sage
from tests.models.jax.large.language import LlamaSize, decode, dispatch, gpt, llama, lora, mixtral
from tests.models.jax.large.training import Precision, count_parameters
from tests.models.jax.large.vision import dit, unet, vit
from tofu.jax.frontend.versions import in_double_precision

PARAMETERS = {  # trained, and frozen; exact except for GPT-3, of which only "175 billion" is published
    "llama-8b": (8_030_261_248, 0),
    "llama-8b-unrolled": (8_030_261_248, 0),
    "llama-70b": (70_553_706_496, 0),
    "llama-70b-unrolled": (70_553_706_496, 0),
    "mixtral-8x7b": (46_702_792_704, 0),
    "gpt3-175b": (pytest.approx(175e9, rel=5e-3), 0),
    "vit-l": (304_326_632, 0),
    "sd-unet": (859_520_964, 0),
    "dit-xl": (675_129_632, 0),
    "graphsage": (206_895, 0),
    "llama-8b-decode": (0, 8_030_261_248),
    "llama-8b-lora": (3_407_872, 8_030_261_248),
}
DOUBLE = Precision("float64", "float64")
LLAMA = {"size": LlamaSize(layers=2, width=32, hidden=48, heads=4, groups=2), "vocabulary": 64}
TINY = {
    "llama": lambda: llama(4, **LLAMA, length=16, precision=DOUBLE),
    "unrolled llama": lambda: llama(4, **LLAMA, length=16, is_scanned=False, precision=DOUBLE),
    "mixtral": lambda: mixtral(4, **LLAMA, experts=4, length=16, precision=DOUBLE),
    "gpt": lambda: gpt(4, layers=2, width=32, heads=4, vocabulary=64, length=16, precision=DOUBLE),
    "lora": lambda: lora(4, **LLAMA, rank=4, length=16, precision=DOUBLE),
    "decode": lambda: decode(4, **LLAMA, positions=16, precision=DOUBLE),
    "vit": lambda: vit(4, layers=2, width=32, heads=4, image=16, patch=4, classes=8, precision=DOUBLE),
    "dit": lambda: dit(4, layers=2, width=32, heads=4, extent=8, classes=7, precision=DOUBLE),
    "unet": lambda: unet(4, 32, (1, 2), blocks=0, heads=4, extent=8, text_shape=(8, 16), precision=DOUBLE),
    "graph": lambda: sage(64, 256, (16, 32, 8), DOUBLE),
}
LARGEST_INTEGER = 7  # a valid token, class, node, time and position of all tiny models


def draw(model):
    """Return random arguments. Second moments are positive."""
    rng = np.random.default_rng(0)

    def draw_leaf(shape):
        if jnp.issubdtype(shape.dtype, jnp.integer):
            return jnp.asarray(rng.integers(0, LARGEST_INTEGER + 1, shape.shape), shape.dtype)
        return jnp.asarray(rng.normal(size=shape.shape) / 4, shape.dtype)

    state, data = jax.tree.map(draw_leaf, (model.state, model.data))
    if "optimizer" in state:
        state["optimizer"] = jax.tree.map(jnp.abs, state["optimizer"])
    return state, data


@pytest.mark.parametrize("name", MODELS)
def test_models_have_their_published_number_of_parameters(name):
    recipe = MODELS[name]
    model = recipe.build(recipe.count_samples(8))
    assert (model.size.trained, model.size.frozen) == PARAMETERS[name]
    assert count_parameters(model.weights) == model.size.trained + model.size.frozen


@pytest.mark.parametrize("name", ["llama-8b", "llama-8b-decode", "llama-8b-lora", "mixtral-8x7b", "gpt3-175b"])
def test_steps_of_full_size_return_the_next_state(name):
    recipe = MODELS[name]
    model = recipe.build(recipe.count_samples(8))
    state, _ = jax.eval_shape(model.step, model.state, model.data)
    assert jax.tree.map(lambda a: (a.shape, a.dtype), state) == jax.tree.map(lambda a: (a.shape, a.dtype), model.state)


def test_training_keeps_14_bytes_of_state_for_a_parameter():
    model = MODELS["llama-8b"].build(2)
    state_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(model.state) if leaf.ndim)
    assert state_bytes == 14 * model.size.trained


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_two_devices_compute_what_one_does(name):
    with in_double_precision():
        model = TINY[name]()
        check_step(model.step, 2, *draw(model), rtol=1e-9, atol=1e-11, search_seconds=1)


def test_unrolled_and_scanned_layers_compute_the_same():
    with in_double_precision():
        scanned, unrolled = TINY["llama"](), TINY["unrolled llama"]()
        state, data = draw(scanned)

        def unroll(tree):
            layers = [jax.tree.map(lambda a, n=n: a[n], tree["layers"]) for n in range(LLAMA["size"].layers)]
            return {**tree, "layers": layers}

        own = {"weights": unroll(state["weights"]), "master": unroll(state["master"])}
        own["optimizer"] = jax.tree.map(
            lambda tree: unroll(tree) if isinstance(tree, dict) else tree,
            state["optimizer"],
            is_leaf=lambda tree: isinstance(tree, dict),
        )
        next_scanned, loss = jax.jit(scanned.step)(state, data)
        next_unrolled, other = jax.jit(unrolled.step)(own, data)
        assert float(loss) == pytest.approx(float(other), rel=1e-12)
        assert_close(unroll(next_scanned["weights"]), next_unrolled["weights"], 1e-9, 1e-11)


def test_cached_tokens_are_those_of_the_whole_sequence():
    """Draw tokens one by one. In training, the last token drawn must be the most probable target."""
    with in_double_precision():
        cached, whole = TINY["decode"](), llama(4, **LLAMA, length=5, precision=DOUBLE)
        state = draw(whole)[0]
        next_token, train = jax.jit(cached.step), jax.jit(whole.step)
        cache = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), cached.state)
        tokens = [cache["token"]]
        for _ in range(5):
            cache, token = next_token(cache, state["weights"])
            tokens.append(token)
        sequence, targets = jnp.stack(tokens[:5], 1), jnp.stack(tokens[1:], 1)
        _, least = train(state, {"tokens": sequence, "targets": targets})
        for sample in range(4):
            for other in (0, 31, 63):
                changed = targets.at[sample, 4].set(other)
                _, loss = train(state, {"tokens": sequence, "targets": changed})
                assert (loss > least) == (other != targets[sample, 4])


def test_experts_take_the_first_tokens_up_to_their_capacity():
    chances = jnp.array([[[0.6, 0.4, 0.0], [0.6, 0.4, 0.0], [0.1, 0.6, 0.3]]])
    taken = dispatch(chances, 2)
    assert taken.shape == (1, 3, 3, 2)
    expected = np.zeros((3, 3, 2))
    expected[0, 0, 0] = expected[1, 0, 1] = 0.6
    expected[0, 1, 0] = expected[1, 1, 1] = 0.4
    expected[2, 2, 0] = 0.3 / 0.9  # expert 1 is full
    np.testing.assert_allclose(taken[0], expected, rtol=1e-6)
