"""Training steps of flax, equinox and optax, as their users write them, on several devices as on one."""

from __future__ import annotations

import inspect

import jax
import numpy as np
import optax
import pytest

import tofu.jax
from tests.models.jax import as_numbers, load_models
from tofu.jax.frontend.versions import in_double_precision

MODULES = {
    package: pytest.importorskip(f"tests.models.jax.{package}", reason="it is not installed")
    for package in ("linen", "nnx", "equinox")
}
LINEN = MODULES["linen"].MODELS


def compare(step, state, others, workers, steps=3, tolerance=1e-10, **options):
    """Steps on several devices, each of which goes on from what the one before it returned; the state is donated."""
    made = tofu.jax.partition(step, workers, (state, *others), donate_argnums=0, search_seconds=1, **options)
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


@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package, module in MODULES.items() for name in module.MODELS]
)
def test_steps_equal_those_of_one_device(package, name):
    workers = 8 if (package, name) == ("linen", "transformer") else 4
    with in_double_precision():
        compare(*MODULES[package].MODELS[name](), workers)


@pytest.mark.parametrize("name", ["accumulated", "recurrent"])
def test_gradients_that_loops_add_up_move_once(name):
    with in_double_precision():
        made = compare(*LINEN[name](), workers=4, replicate="free")
    assert any(tensor.addends > 1 for tensor in made.partition.graph.tensors)


def test_training_goes_on_from_a_checkpoint_of_orbax_at_another_number_of_devices(tmp_path):
    """The lines of docs/jax.md."""
    orbax = pytest.importorskip("orbax.checkpoint", reason="it is not installed")
    with in_double_precision():
        step, start, others = load_models()["perceptron"]("float64")
        four, parallel = (tofu.jax.partition(step, k, (start, *others), search_seconds=2) for k in (4, 2))
        shapes, path = jax.eval_shape(lambda: start), tmp_path / "state"
        state, *_ = four(four.place(start), *others)
        checkpointer = orbax.StandardCheckpointer()
        checkpointer.save(path, state)
        checkpointer.wait_until_finished()
        place = lambda a, sharding: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding)  # noqa: E731
        state = checkpointer.restore(path, jax.tree.map(place, shapes, parallel.shardings[0]))
        assert [x.sharding for x in jax.tree.leaves(state)] == jax.tree.leaves(parallel.shardings[0])
        found = parallel(state, *others)
        whole = jax.jit(step)
        wanted = whole(whole(start, *others)[0], *others)
        for one, other in zip(as_numbers(found), as_numbers(wanted), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


OPTIMIZERS = {name: make for name, make in vars(optax).items() if getattr(make, "__module__", "") == "optax._src.alias"}
ASKED = {"noisy_sgd": {"key": 0}, "adafactor": {"min_dim_size_to_factor": 16}}


@pytest.mark.filterwarnings("ignore:`optimistic_adam` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_of_optax(name):
    parameters = inspect.signature(OPTIMIZERS[name]).parameters
    rate = {"learning_rate": 1e-2} if "learning_rate" in parameters else {}
    with in_double_precision():
        compare(*MODULES["linen"].optimized(OPTIMIZERS[name](**rate, **ASKED.get(name, {}))), workers=4)


def test_there_are_optimizers():
    assert {"adamw", "lbfgs", "novograd", "sm3"} < OPTIMIZERS.keys()
