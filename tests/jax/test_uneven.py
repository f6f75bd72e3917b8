"""Extents that the workers cannot share equally: shards within a step overlap, and nothing is counted twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.comparison import check_step, list_differences
from tests.shared.random_plans import random_plan
from tofu.jax.backend.collectives import take_box
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.frontend.versions import in_double_precision
from tofu.program.collectives import find_layout
from tofu.program.parts import list_shards

RANDOM = np.random.RandomState(0)
X, Y = RANDOM.randn(7, 11), RANDOM.randn(11, 10)
ROWS = RANDOM.randint(0, 11, (10,)).astype(np.int32)
OPERATIONS = {
    "products": lambda x, y, i: (x @ y, jnp.einsum("ij,kj->ikj", x, y.T)),
    "reductions": lambda x, y, i: (x.sum(0), x.max(1), jnp.prod(x, 0), jnp.argmax(y, 1)),
    "softmax": lambda x, y, i: jax.nn.softmax(jnp.where(y > 0, y, -jnp.inf), axis=0),
    "order": lambda x, y, i: (jnp.cumsum(x, 1), *lax.top_k(x, 4)),
    "indices": lambda x, y, i: (y[i, :3], jnp.zeros(11).at[i].add(y[0])),
    "moved cells": lambda x, y, i: (jnp.concatenate([x.T, y], 1)[2:], jnp.pad(x, 1), x.reshape(-1), x[:, ::-1]),
    "places": lambda x, y, i: (
        lax.dynamic_slice_in_dim(x, i[0], 2),
        lax.dynamic_update_slice_in_dim(y, x[:2, :10], i[1], 0),
    ),
    "images": lambda x, y, i: lax.conv(jnp.stack([x, x + 1])[:, None], y[None, None, :3, :2], (1, 1), "SAME"),
    "scan": lambda x, y, i: lax.scan(lambda h, row: (jnp.tanh(h + row), h * row), y[:, 0], x),
    "random bits": lambda x, y, i: jax.random.normal(jax.random.key(3), (7, 10)) + x[:, :10],
}


def has_overlapping_shards(made, tensor):
    """Return True if workers share elements of a tensor, other than by replication."""
    problem = made.partition.problem
    boxes = list_shards(made.partition.choices, tensor)
    return find_layout(boxes, problem.graph.tensors[tensor].shape, problem.factors) is None


WITHOUT_GRADIENT = ("order", "moved cells", "places", "random bits")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations_and_gradients_equal_one_device(operation):
    """Use a random plan."""
    bar = lambda tree: jax.tree.map(lax.optimization_barrier, tree)  # noqa: E731  unlike arguments, these have uneven parts

    def step(x, y, i):
        function = lambda x, y: OPERATIONS[operation](*bar((x, y, i)))  # noqa: E731
        made = function(x, y)
        real = [n for n, leaf in enumerate(jax.tree.leaves(made)) if jnp.issubdtype(leaf.dtype, jnp.floating)]
        score = lambda x, y: sum(jnp.sin(jax.tree.leaves(function(x, y))[n]).sum() for n in real)  # noqa: E731
        return bar(made if operation in WITHOUT_GRADIENT else (made, jax.grad(score, (0, 1))(x, y)))

    with in_double_precision():
        args = X, Y, ROWS
        planned = tofu.jax.partition(step, 3, args, search_seconds=0.2)
        made = tofu.jax.partition(step, 3, args, plan=random_plan(planned.partition, 1))
        assert any(has_overlapping_shards(made, t) for t in range(len(made.partition.problem.graph.tensors)))
        assert list_differences(made(*args), jax.jit(step)(*args)) == []


def test_nan_and_infinity_do_not_spread():
    x = X.copy()
    x[3, 4], x[5, 6] = np.nan, np.inf
    step = lambda x, y: lax.optimization_barrier((x * 1.0) @ (y * 1.0) + x.sum(0)[:10])  # noqa: E731
    with in_double_precision():
        hints = {"dot_general": "k0", "mul": 1, "mul_1": 0}
        planned = check_step(step, 3, x, Y, rtol=1e-12, atol=1e-12, hints=hints)
    assert planned.plan.operators["dot_general"] == ("k0",)


def test_slices_of_scaled_integers_keep_their_factor():
    """Guard against XLA, which loses the factor of a dynamic slice of a scaled dynamic slice."""
    take = jax.jit(lambda x, a, b: take_box(take_box(x, (a,), (2,)) * 2, (b,), (1,)))
    assert take(np.array([5, 7, 11, 13], np.int32), np.uint32(2), np.uint32(1)).tolist() == [26]


def test_a_clipped_slice_is_cut_at_its_clipped_position():
    """Guard against XLA, which turns a gather of one slice into a dynamic slice and shards it at the requested position."""
    numbers = lax.GatherDimensionNumbers((0,), (), (0,))
    look = lambda x, i: lax.gather(x, i, numbers, (5,), mode=lax.GatherScatterMode.CLIP)  # noqa: E731
    step = lambda x, i: lax.optimization_barrier(jnp.sin(look(x * 1.0, i)))  # noqa: E731
    x, i = np.arange(8.0, dtype=np.float32), np.array([7], np.int32)
    check_step(step, 3, x, i, rtol=1e-12, atol=1e-12, hints={"gather": (None,), "sin": "i0"})


def test_a_table_with_odd_rows_is_split_by_columns():
    def step(tables, rows):
        loss = lambda tables: -jax.nn.log_softmax(jnp.tanh(tables[0][rows]) @ tables[1]).sum()  # noqa: E731
        return jax.tree.map(lambda p, g: p - 0.1 * g, tables, jax.grad(loss)(tables))

    tables = tuple(jax.ShapeDtypeStruct(shape, "float32") for shape in ((257, 64), (64, 257)))
    planned = tofu.jax.partition(step, 8, (tables, jax.ShapeDtypeStruct((32,), "int32")))
    assert [planned.plan.tensors[f"tables/{n}"] for n in (0, 1)] == [(1, 1, 1), (0, 0, 0)]
    assert "n1" in planned.plan.operators["dot_general"]
    moved = count_traffic(planned.lower(tables, jax.ShapeDtypeStruct((32,), "int32")).compile().as_text(), 8).total
    assert moved <= 1.02 * planned.plan.communication_bytes
    assert 0 < planned.memory_report().worker.arguments_bytes - 2 * 257 * 64 * 4 // 8 <= 32 * 4


def test_loops_carry_overlapping_shards():
    step = lambda x, rows: lax.scan(lambda h, row: (jnp.tanh(h + row), None), x, rows)[0] * 2.0  # noqa: E731
    rows = RANDOM.randn(4, 7, 11)
    with in_double_precision():
        planned = check_step(step, 3, X, rows, rtol=1e-12, atol=1e-12, hints={"scan/carry_0": 1})
    assert has_overlapping_shards(planned, planned.partition.graph.tensor_index["scan/carry_0"])
