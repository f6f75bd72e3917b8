import jax.numpy as jnp
import numpy as np
import pytest

import tofu.jax
from tofu.errors import InternalError
from tofu.jax.backend import collectives, spmd
from tofu.jax.backend.collectives import Workers
from tofu.jax.compare.traffic import count_traffic
from tofu.program.collectives import AllGather, AllReduce, ReduceScatter

X, W = (np.random.default_rng(seed).normal(size=(512, 512)).astype(np.float32) for seed in range(2))


def partition():
    hints = {"dot_general": ("k0", "m0"), "mul": (1, 0)}
    return tofu.jax.partition(lambda x, w: (x @ w) * 2.0, 4, (X, W), hints=hints)


@pytest.mark.parametrize("kind", [ReduceScatter, AllGather])
def test_a_missing_collective_is_found(monkeypatch, kind):
    recognize = spmd.recognize
    others = lambda *given: tuple(found for found in recognize(*given) if not isinstance(found, kind))  # noqa: E731
    monkeypatch.setattr(spmd, "recognize", others)
    with pytest.raises(InternalError, match="differ from its transfer"):
        partition()(X, W)


def test_unplanned_bytes_are_found_in_the_compiled_program(monkeypatch):
    """The program is right, but its translation is not."""
    made = partition()
    np.testing.assert_allclose(made(X, W), X @ W * 2, rtol=1e-3, atol=1e-3)
    counted = made.plan.communication_bytes
    assert count_traffic(made.lower(X, W).compile().as_text(), 4).total == counted
    scatter = Workers._scatter

    def reduce_whole(workers, collective, x):
        whole = workers._reduce(AllReduce((collective.axis,), collective.reducer), x)
        return workers._slice(collective, whole) + 0 * jnp.sum(scatter(workers, collective, x))

    monkeypatch.setitem(collectives.RULES, ReduceScatter, reduce_whole)
    assert count_traffic(partition().lower(X, W).compile().as_text(), 4).total > 1.02 * counted
