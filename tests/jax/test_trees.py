import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tofu.jax
from tofu.errors import UnsupportedError

X = jnp.ones((8, 8))


def register(name, flatten, unflatten):
    node_class = type(name, (), {"__init__": lambda self, *leaves: setattr(self, "leaves", leaves)})
    jax.tree_util.register_pytree_node(node_class, flatten, unflatten)
    return node_class


def fail(*_):
    raise RuntimeError("out of order")


NotFlattened = register("NotFlattened", fail, lambda _, leaves: None)
NotBuilt = register("NotBuilt", lambda self: (self.leaves, None), fail)
WithArrays = register("WithArrays", lambda self: (self.leaves, np.ones(3)), lambda _, leaves: WithArrays(*leaves))


class NoText:
    def __repr__(self):
        return fail()


def make_cycle():
    inner = {"w": X}
    inner["around"] = [{"inner": inner}]
    return {"layer": inner}


def make_deep(levels=1_000):
    tree = X
    for _ in range(levels):
        tree = [tree]
    return tree


TREES = {
    "cycle": (make_cycle(), r"state/layer/around/0/inner is a dict that contains itself"),
    "depth": (make_deep(), r"state has more than 400 levels"),
    "half a character": ({"layer": {"\ud800": X}}, r"name state/layer/\\ud800 has half of a character"),
    "kinds of keys": ({"a": {1: X, "b": X}}, r"state/a is a dict whose keys JAX cannot sort: .* types int, str"),
    "flattening": ([NotFlattened(X)], r"state/0 is a NotFlattened, .* failed: RuntimeError: out of order"),
    "building": ([NotBuilt(X)], r"state cannot be rebuilt .* RuntimeError: out of order"),
    "fields": ({"a": WithArrays(X)}, r"state/0 \(a WithArrays\) has static fields"),
    "key without text": ({NoText(): X}, r"state has a key that cannot be shown"),
    "texts": ({"a": np.array(["x"]), "w": X}, r"state/a has the dtype <U1"),
    "masked": ({"a": np.ma.array([1.0, 2.0], mask=[0, 1]), "w": X}, r"state/a is a masked array"),
    "extents": ({"a": jax.ShapeDtypeStruct((8, -1), "float32")}, r"state/a has the shape \(8, -1\)"),
}


def step(state, x):
    return state, sum(leaf.sum() for leaf in jax.tree.leaves(state)) + x.sum()


@pytest.mark.parametrize("name", TREES)
def test_wrong_states_are_refused_with_their_path(name):
    tree, message = TREES[name]
    with pytest.raises(UnsupportedError, match=message):
        tofu.jax.partition(step, 2, (tree, X))
    assert tofu.jax.partition(step, 2, ({"w": X}, X)).plan.workers == 2


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (make_cycle(), "result/1/layer/around/0/inner is a dict that contains itself"),
        ({"a": {1, 2}}, "result/1/a is of type builtins.set"),
        ({"a": np.array([None])}, "result/1/a is of type numpy.ndarray"),
    ],
)
def test_wrong_results_are_refused_with_their_path(result, message):
    with pytest.raises(UnsupportedError, match=message):
        tofu.jax.partition(lambda x: (x * 2, result), 2, (X,))


@pytest.mark.parametrize(
    "tree", [{None: X}, {"a": {"b": X}, "a/b": X}, {"k" * 10_000: X}, {"a\0b\n": X}, [{2: X}, {}, None]]
)
def test_unusual_keys_are_planned_and_saved(tree):
    node_class = tofu.jax.partition(step, 2, (tree, X))
    assert type(node_class.plan).from_json(node_class.plan.to_json()) == node_class.plan
    np.testing.assert_allclose(node_class(tree, X)[1], step(tree, X)[1])
