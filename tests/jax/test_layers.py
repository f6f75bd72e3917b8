"""Steps of many equal layers, which are planned once: found in real Transformers, told, and run with the numbers of one device."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tofu.jax
from tests.jax.test_run import check_steps
from tests.models.jax.language import transformer
from tofu.jax import read_step
from tofu.jax.frontend.versions import in_double_precision
from tofu.search import repeated_layers
from tofu.search.repeated_layers import find_repeated_layers

LAYERS = 8
SIZES = {"batch": 8, "length": 8, "width": 32, "heads": 4, "hidden": 64, "vocabulary": 64, "has_adam": True}
ALIKE = "among plans that treat every second repeated layer alike"


@pytest.fixture
def tied(monkeypatch):
    monkeypatch.setattr(repeated_layers, "LEAST_OPERATORS", 0)


def make_arguments(model):
    """A state and data in double precision."""
    rng = np.random.default_rng(5)

    def draw(leaf):
        if leaf.dtype == jnp.int32:
            return jnp.asarray(rng.integers(0, SIZES["vocabulary"], leaf.shape), "int32")
        return jnp.asarray(rng.uniform(0.01, 0.1, leaf.shape))

    return jax.tree.map(draw, (model.state, model.data))


def test_nearly_all_of_a_transformer_is_planned_with_another_layer(tied):
    model = transformer(12, **SIZES)
    graph = read_step(model.step, (model.state, model.data)).graph
    found = find_repeated_layers(graph)
    decided = len(graph.operators) - sum(len(family) - 1 for family in found.operators)
    assert decided < 0.3 * len(graph.operators)
    weights = {
        frozenset(graph.tensors[t].name for t in family)
        for family in found.tensors
        if "blocks" in graph.tensors[family[0]].name
    }
    assert not any(len({name.rsplit("/", 1)[1] for name in family}) > 1 for family in weights), "q is not k"
    numbered = [sorted(int(name.split("/blocks/")[1].split("/")[0]) for name in family) for family in weights]
    assert all((n - family[0]) % 2 == 0 for family in numbered for n in family)


@pytest.mark.parametrize(("workers", "replicate"), [(2, "free"), (4, "small")])
def test_layers_that_are_alike_give_the_numbers_of_one_device(tied, workers, replicate):
    model = transformer(LAYERS, **SIZES)
    with in_double_precision():
        state, data = make_arguments(model)
        made = tofu.jax.partition(model.step, workers, (state, data), replicate=replicate, search_seconds=2)
        assert made.plan.optimality.endswith(ALIKE)
        check_steps(made, model.step, state, data)


def test_a_hint_for_one_layer_is_for_that_layer(tied):
    model = transformer(LAYERS, **(SIZES | {"width": 256, "hidden": 512}))
    asked = model.state, model.data
    free = tofu.jax.partition(model.step, 2, asked, search_seconds=2).plan
    name, beside = "state/0/blocks/4/up", ("state/0/blocks/2/up", "state/0/blocks/6/up")
    other = 1 - free.tensors[name][0]
    made = tofu.jax.partition(model.step, 2, asked, search_seconds=2, hints={name: other}).plan
    assert made.tensors[name] == (other,)
    assert {made.tensors[one] for one in beside} == {free.tensors[name]}
    assert made.communication_bytes > free.communication_bytes
