import jax
import optax
import pytest

import tofu.jax
from tests.jax.comparison import assert_close
from tests.models.jax import load_models
from tofu.jax.frontend.versions import in_double_precision

MODULES = {
    package: pytest.importorskip(f"tests.models.jax.{package}", reason="it is not installed")
    for package in ("linen", "nnx", "equinox")
}
SUMMED = ("accumulated", "recurrent")  # models whose loops add up gradients, which are reduced once, after the loop


def train_and_compare(step, state, others, workers, **options):
    """Return the partitioned step after three training steps with a donated state."""
    made = tofu.jax.partition(step, workers, (state, *others), donate_argnums=0, search_seconds=1, **options)
    wanted, theirs = [], state
    for _ in range(3):
        theirs, *results = jax.jit(step)(theirs, *others) if not hasattr(step, "lower") else step(theirs, *others)
        wanted.append(results)
    found, ours = [], made.place(state)
    layouts = [x.sharding for x in jax.tree.leaves(ours) if isinstance(x, jax.Array)]
    for _ in range(3):
        ours, *results = made(ours, *others)
        found.append(results)
    assert jax.tree.structure((ours, found)) == jax.tree.structure((theirs, wanted))
    assert [x.sharding for x in jax.tree.leaves(ours) if isinstance(x, jax.Array)] == layouts
    assert_close((ours, found), (theirs, wanted), 1e-10, 1e-10)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package, module in MODULES.items() for name in module.MODELS]
)
def test_models_train_as_on_one_device(package, name):
    workers = 8 if (package, name) == ("linen", "transformer") else 4
    with in_double_precision():
        made = train_and_compare(
            *MODULES[package].MODELS[name](), workers, replicate="free" if name in SUMMED else "small"
        )
        assert name not in SUMMED or any(tensor.addends > 1 for tensor in made.partition.graph.tensors)


def test_training_resumes_from_an_orbax_checkpoint_on_other_devices(tmp_path):
    """Run the lines of docs/jax.md."""
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
        assert_close(found, wanted, 1e-10, 1e-10)


OPTIMIZERS = {
    "adafactor": {"learning_rate": 1e-2, "min_dim_size_to_factor": 16},
    "adamw": {"learning_rate": 1e-2},
    "lbfgs": {},
    "noisy_sgd": {"learning_rate": 1e-2, "key": 0},
    "novograd": {"learning_rate": 1e-2},
    "sm3": {"learning_rate": 1e-2},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_of_optax_train_as_on_one_device(name):
    optimizer = getattr(optax, name)(**OPTIMIZERS[name])
    with in_double_precision():
        train_and_compare(*MODULES["linen"].optimized(optimizer), workers=4)
