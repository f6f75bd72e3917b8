import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.jax.comparison import check_step

pytest.importorskip("optax", reason="it is not installed")
from tests.models.jax.large import MODELS
from tests.models.jax.large.graph import sage
from tests.models.jax.large.language import LlamaSize, decode, gpt, llama, lora, mixtral
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


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_two_devices_compute_what_one_does(name):
    with in_double_precision():
        model = TINY[name]()
        check_step(model.step, 2, *draw(model), rtol=1e-9, atol=1e-11, search_seconds=1)
