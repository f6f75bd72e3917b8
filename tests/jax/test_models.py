"""Training steps of flax, equinox and optax, as their users write them, on several devices as on one."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tofu.jax
from tofu.jax.frontend.versions import in_double_precision


def load_models(module, package):
    """The models of a module of tests, where the package that they need is installed."""
    return import_module(f"tests.jax.{module}").MODELS if find_spec(package) else {}


def as_numbers(tree):
    for x in jax.tree.leaves(tree):
        if hasattr(x, "dtype"):  # not a function
            is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
            yield np.asarray(jax.random.key_data(x) if is_key else x, np.float64)


def compare(step, state, others, workers, steps=3, tolerance=1e-10, **options):
    """Steps on several devices, each of which goes on from what the one before it returned; the state is donated."""
    made = tofu.jax.partition(step, workers, (state, *others), donate_argnums=0, search_seconds=2, **options)
    wanted, theirs = [], state
    for _ in range(steps):
        theirs, *results = jax.jit(step)(theirs, *others) if not hasattr(step, "lower") else step(theirs, *others)
        wanted.append(results)
    found, ours = [], made.place(state)
    layouts = [x.sharding for x in jax.tree.leaves(ours) if isinstance(x, jax.Array)]
    for _ in range(steps):
        ours, *results = made(ours, *others)
        found.append(results)
    assert jax.tree.structure((ours, found)) == jax.tree.structure((theirs, wanted))
    assert [x.sharding for x in jax.tree.leaves(ours) if isinstance(x, jax.Array)] == layouts
    for one, other in zip(as_numbers((ours, found)), as_numbers((theirs, wanted)), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    return made


@pytest.mark.skipif(not find_spec("flax"), reason="flax is not installed")
@pytest.mark.parametrize("name", load_models("linen_models", "flax"))
def test_steps_of_flax_linen(name):
    with in_double_precision():
        compare(*load_models("linen_models", "flax")[name](), workers=4)


@pytest.mark.skipif(not find_spec("flax"), reason="flax is not installed")
@pytest.mark.parametrize("name", load_models("nnx_models", "flax"))
def test_steps_of_flax_nnx(name):
    with in_double_precision():
        compare(*load_models("nnx_models", "flax")[name](), workers=2)


@pytest.mark.skipif(not find_spec("equinox"), reason="equinox is not installed")
@pytest.mark.parametrize("name", load_models("equinox_models", "equinox"))
def test_steps_of_equinox(name):
    with in_double_precision():
        compare(*load_models("equinox_models", "equinox")[name](), workers=4)


@pytest.mark.skipif(not find_spec("flax"), reason="flax is not installed")
def test_a_transformer_on_eight():
    with in_double_precision():
        compare(*load_models("linen_models", "flax")["transformer"](), workers=8, steps=2)
