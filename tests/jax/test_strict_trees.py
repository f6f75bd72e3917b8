"""Classes of pytrees whose constructors accept only arrays: a planned step passes them nothing else, like `jax.jit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tofu.jax
from tofu.errors import ShapeError, UnsupportedError

RANDOM = np.random.default_rng(0)
WEIGHT, BIAS = (jnp.asarray(RANDOM.normal(size=shape), jnp.float32) for shape in ((512, 256), (256,)))
BATCH = tuple(jnp.asarray(RANDOM.normal(size=(64, width)), jnp.float32) for width in (512, 256))


def check_arrays(w, b):
    assert isinstance(w, jax.Array)
    assert isinstance(b, jax.Array)
    assert w.shape[1:] == b.shape


@jax.tree_util.register_pytree_node_class
class Registered:
    def __init__(self, w, b):
        check_arrays(w, b)
        self.w, self.b = w, b

    def tree_flatten(self):
        return (self.w, self.b), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


class StrictPair(NamedTuple):
    w: Any
    b: Any


@jax.tree_util.register_dataclass
@dataclass
class ArraysOnly:
    w: Any
    b: Any

    def __post_init__(self):
        check_arrays(self.w, self.b)


@jax.tree_util.register_dataclass
@dataclass
class WithFunction(ArraysOnly):
    activation: Any = jnp.tanh

    def __post_init__(self):
        super().__post_init__()
        assert callable(self.activation)


KINDS = [Registered, ArraysOnly, WithFunction]


def name_weight(kind):
    """Return the weight's name; a class registered without keys numbers its arrays."""
    return "params/0" if kind is Registered else "params/w"


def predict(params, x):
    return getattr(params, "activation", jnp.tanh)(x @ params.w + params.b)


def step(params, batch):
    def find_loss(w, b):
        return jnp.mean((predict(StrictPair(w, b), batch[0]) - batch[1]) ** 2)

    loss, (w, b) = jax.value_and_grad(find_loss, (0, 1))(params.w, params.b)
    return type(params)(params.w - 0.1 * w, params.b - 0.1 * b), loss


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_planned_placed_and_run(kind):
    params = kind(WEIGHT, BIAS)
    wanted, loss = step(params, BATCH)
    made = tofu.jax.partition(step, 4, (params, BATCH), hints={name_weight(kind): 1})
    placed = made.place(params)
    assert isinstance(placed, kind)
    assert placed.w.addressable_shards[0].data.shape == (512, 64)
    after, ours = made(placed, made.place_part(BATCH))
    assert isinstance(after, kind)
    assert after.w.sharding == placed.w.sharding
    np.testing.assert_allclose(after.w, wanted.w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours, loss, rtol=1e-5)
    assert made.memory_report(compile=True).compiled is not None
    with pytest.raises(UnsupportedError, match=r"shardings is not available, since a pytree class .* \[x\.sharding"):
        made.shardings  # noqa: B018
    with pytest.raises(ShapeError, match=r"Missing: params/.*Not planned for: params/other"):
        made.place({"other": WEIGHT})


@pytest.mark.parametrize("kind", KINDS)
def test_other_steps_read_the_state_or_a_part_of_it(kind):
    params = kind(WEIGHT, BIAS)
    made = tofu.jax.partition(step, 4, (params, BATCH))
    placed = made.place(params)
    other = made.also(predict, (params, BATCH[0]))
    np.testing.assert_allclose(other(placed, BATCH[0]), predict(params, BATCH[0]), rtol=1e-4, atol=1e-4)
    part = made.also(lambda w, x: x @ w, (WEIGHT, BATCH[0]), part=lambda params: params.w)
    assert part.plan.tensors["w"] == made.plan.tensors[name_weight(kind)]
    with pytest.raises(UnsupportedError, match=r"part= returns a value that is not in the state"):
        made.also(lambda w, x: x @ w, (WEIGHT, BATCH[0]), part=lambda params: params.w + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_uneven_shards_are_refused_with_a_remedy(kind):
    params = kind(WEIGHT, BIAS)
    made = tofu.jax.partition(step, 3, (params, BATCH), hints={name_weight(kind): 1})
    with pytest.raises(UnsupportedError, match=r'accept a tofu\.jax\.UnevenArray.*AssertionError.*uneven="none"'):
        made.place(params)
    whole = tofu.jax.partition(step, 3, (params, BATCH), uneven="none")
    np.testing.assert_allclose(whole(whole.place(params), BATCH)[0].w, step(params, BATCH)[0].w, rtol=1e-5, atol=1e-6)


def test_errors_of_jax_name_the_path_of_an_argument():
    def asks(params, batch):
        return params if params.w.sum() > 0 else None

    with pytest.raises(jax.errors.TracerBoolConversionError, match=r"argument params\.w"):
        tofu.jax.partition(asks, 2, (ArraysOnly(WEIGHT, BIAS), BATCH))
