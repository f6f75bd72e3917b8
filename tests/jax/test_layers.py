import jax
import jax.numpy as jnp
import pytest

import tofu.jax
from tests.models.jax.language import transformer
from tofu.jax import read_step
from tofu.search import find_strategies, repeated_layers
from tofu.search.repeated_layers import find_repeated_layers

SIZES = {"batch": 8, "length": 8, "width": 32, "heads": 4, "hidden": 64, "vocabulary": 64, "has_adam": True}


@pytest.fixture
def tied_layers(monkeypatch):
    monkeypatch.setattr(repeated_layers, "LEAST_OPERATORS", 0)


def test_most_operators_of_a_transformer_share_a_choice(tied_layers):
    model = transformer(12, **SIZES)
    graph = read_step(model.step, (model.state, model.data)).graph
    found = find_repeated_layers(graph, find_strategies(graph, tofu.jax.JAX.front_end))
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


def of_stack(weights, n):
    return {name: stack[n] for name, stack in weights.items()}


def of_list(weights, n):
    return weights[n]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("take", [of_stack, of_list])
def test_layers_of_a_stack_and_clipped_gradients_are_tied(tied_layers, take, dtype):
    """Slices of a stack, cast weights and the norm of all gradients do not distinguish layers."""
    layers, shape = 12, {"up": (16, 64), "down": (64, 16), "scale": (16,)}
    if take is of_stack:
        weights = {name: jax.ShapeDtypeStruct((layers, *sizes), "float32") for name, sizes in shape.items()}
    else:
        weights = [{name: jax.ShapeDtypeStruct(sizes, "float32") for name, sizes in shape.items()}] * layers

    def loss(weights, x):
        for n in range(layers):
            w = jax.tree.map(lambda leaf: leaf.astype(dtype), take(weights, n))
            x = x + jax.nn.relu((x * w["scale"]) @ w["up"]) @ w["down"]
        return (x.astype("float32") ** 2).sum()

    def step(weights, x):
        gradients = jax.grad(loss)(weights, x)
        norm = jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(gradients)))
        return jax.tree.map(lambda w, g: w - g / norm, weights, gradients)

    graph = read_step(step, (weights, jax.ShapeDtypeStruct((8, 16), dtype))).graph
    found = find_repeated_layers(graph, find_strategies(graph, tofu.jax.JAX.front_end))
    decided = len(graph.operators) - sum(len(family) - 1 for family in found.operators)
    assert decided < 5 / layers * len(graph.operators), "two layers that alternate, and those at the ends"
