"""Sizes that the workers cannot share equally: parts within the step overlap, and nothing is counted twice."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.shared.random_plans import random_plan
from tofu.jax import JAX, read_step
from tofu.jax.backend.collectives import take_box
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.frontend.versions import in_double_precision
from tofu.jax.memory import read_worker_program
from tofu.jax.planning import plan_step, read_settings
from tofu.plan import Plan
from tofu.program.collectives import find_layout
from tofu.program.parts import list_shards

RANDOM = np.random.RandomState(0)
X, Y = RANDOM.randn(7, 11), RANDOM.randn(11, 10)
ROWS = RANDOM.randint(0, 11, (10,)).astype(np.int32)
FAMILIES = {
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


def shards_overlap(made, tensor):
    """Whether workers have elements of a tensor that others have too, in shards that are not equal ones or replicas."""
    problem = made.partition.problem
    boxes = list_shards(made.partition.choices, tensor)
    return find_layout(boxes, problem.graph.tensors[tensor].shape, problem.factors) is None


MOVES_CELLS = ("order", "moved cells", "places", "random bits")
"""Of these gradients are sums and moved cells again."""


def train(params, batch):
    """A classifier of ten classes, of sizes that neither 3 nor 8 divides."""
    x, y = batch
    loss = lambda p: -(jax.nn.log_softmax(jax.nn.relu(x @ p["w"]) @ p["v"] + p["b"]) * y).sum(1).mean()  # noqa: E731
    value, gradients = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value


PARAMS = {"w": RANDOM.randn(11, 13), "v": RANDOM.randn(13, 10), "b": RANDOM.randn(10)}
BATCH = RANDOM.randn(10, 11), np.eye(10)


def differ(found, expected):
    pairs = zip(*map(jax.tree.leaves, (found, expected)), strict=True)
    return [1 for one, other in pairs if not np.allclose(one, other, rtol=1e-12, atol=1e-12, equal_nan=True)]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_equals_one_device(family):
    """In gradients, too, of what has some; by a plan that nobody would choose."""
    bar = lambda tree: jax.tree.map(lax.optimization_barrier, tree)  # noqa: E731  results and arguments have equal parts: these have not

    def step(x, y, i):
        function = lambda x, y: FAMILIES[family](*bar((x, y, i)))  # noqa: E731
        made = function(x, y)
        real = [n for n, one in enumerate(jax.tree.leaves(made)) if jnp.issubdtype(one.dtype, jnp.floating)]
        score = lambda x, y: sum(jnp.sin(jax.tree.leaves(function(x, y))[n]).sum() for n in real)  # noqa: E731
        return bar(made if family in MOVES_CELLS else (made, jax.grad(score, (0, 1))(x, y)))

    with in_double_precision():
        args = X, Y, ROWS
        planned = tofu.jax.partition(step, 3, args, search_seconds=0.2)
        made = tofu.jax.partition(step, 3, args, plan=random_plan(planned.partition, 1))
        assert any(shards_overlap(made, t) for t in range(len(made.partition.problem.graph.tensors)))
        assert differ(made(*args), jax.jit(step)(*args)) == []


@pytest.mark.parametrize("workers", [3, 8])
def test_a_step_of_odd_sizes_trains(workers):
    with in_double_precision():
        step = tofu.jax.partition(train, workers, (PARAMS, BATCH))
        state, expected = step.place(PARAMS), PARAMS
        for _ in range(2):
            (state, loss), (expected, value) = step(state, BATCH), jax.jit(train)(expected, BATCH)
        assert differ((state, loss), (expected, value)) == []
        assert jax.tree.map(np.shape, state) == jax.tree.map(np.shape, PARAMS)
        again = tofu.jax.partition(train, workers, (PARAMS, BATCH), plan=Plan.from_json(step.plan.to_json()))
        assert differ(again(PARAMS, BATCH), jax.jit(train)(PARAMS, BATCH)) == []


@pytest.mark.parametrize("workers", [3, 4])
def test_data_parallelism_over_a_batch_that_has_no_equal_parts(workers):
    """Each device has the whole of the batch, and computes a part of it."""
    with in_double_precision():
        step = tofu.jax.partition(train, workers, (PARAMS, BATCH), algorithm="data-parallel")
        assert step.plan.operators["dot_general"] == ("m0",) * len(step.plan.factors)
        assert differ(step(PARAMS, BATCH), jax.jit(train)(PARAMS, BATCH)) == []


def test_what_a_step_is_given_has_equal_parts_and_is_counted_to_the_byte():
    with in_double_precision():
        step = tofu.jax.partition(train, 3, (PARAMS, BATCH))
        for leaf, sharding in zip(*map(jax.tree.leaves, ((PARAMS, BATCH), step.shardings)), strict=True):
            sharding.shard_shape(leaf.shape)  # raises for others
        report = step.memory_report(compile=True)
        assert report.worker.arguments_bytes == report.compiled.arguments_bytes


def test_no_number_and_infinity_stay_where_they_are():
    """Cells that two workers have are not added twice, nor as 0 times infinity."""
    x = X.copy()
    x[3, 4], x[5, 6] = np.nan, np.inf
    step = lambda x, y: lax.optimization_barrier((x * 1.0) @ (y * 1.0) + x.sum(0)[:10])  # noqa: E731
    with in_double_precision():
        planned = tofu.jax.partition(step, 3, (x, Y), hints={"dot_general": "k0", "mul": 1, "mul_1": 0})
        assert planned.plan.operators["dot_general"] == ("k0",)
        assert differ(planned(x, Y), jax.jit(step)(x, Y)) == []


def test_no_worker_computes_more_than_a_part_rounded_up():
    """A table that is looked up and one of 10 classes: of each value within the step a worker has at most ceil(n / k) cells a dimension."""
    step = lambda x, y: lax.optimization_barrier(jnp.tanh(x * 1.0) @ (y * 1.0))  # noqa: E731
    planned = tofu.jax.partition(
        step, 3, (np.zeros((100, 7)), np.zeros((7, 100))), hints={"dot_general": "m0", "tanh": "i0"}
    )
    shapes = {type_.shape for type_ in read_worker_program(planned.partition.training).types}
    assert (34, 7) in shapes
    assert (34, 100) in shapes


def test_one_cell_of_whole_numbers_keeps_its_factor():
    """XLA loses it where a box that begins where the program says is multiplied, and one cell taken of that."""
    one = jax.jit(lambda x, a, b: take_box(take_box(x, (a,), (2,)) * 2, (b,), (1,)))
    assert one(np.array([5, 7, 11, 13], np.int32), np.uint32(2), np.uint32(1)).tolist() == [26]


def test_a_slice_that_is_moved_inside_is_cut_where_it_lies():
    """XLA makes a dynamic slice of a gather of one slice, and takes a worker's part of it where the slice was to begin."""
    numbers = lax.GatherDimensionNumbers((0,), (), (0,))
    look = lambda x, i: lax.gather(x, i, numbers, (5,), mode=lax.GatherScatterMode.CLIP)  # noqa: E731
    step = lambda x, i: lax.optimization_barrier(jnp.sin(look(x * 1.0, i)))  # noqa: E731
    x, i = np.arange(8.0, dtype=np.float32), np.array([7], np.int32)
    planned = tofu.jax.partition(step, 3, (x, i), hints={"gather": (None,), "sin": "i0"})
    assert differ(planned(x, i), jax.jit(step)(x, i)) == []


def test_a_table_of_odd_rows_is_split_along_its_columns():
    """And the logits along the vocabulary, where that moves least; a compiled step moves what is counted."""

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


def test_a_loop_that_begins_with_an_argument_hands_on_parts_that_overlap():
    step = lambda x, rows: lax.scan(lambda h, row: (jnp.tanh(h + row), None), x, rows)[0] * 2.0  # noqa: E731
    rows = RANDOM.randn(4, 7, 11)
    with in_double_precision():
        planned = tofu.jax.partition(step, 3, (X, rows), hints={"scan/carry_0": 1})
        carried = planned.partition.graph.tensor_index["scan/carry_0"]
        assert shards_overlap(planned, carried)
        assert differ(planned(X, rows), jax.jit(step)(X, rows)) == []


@pytest.mark.parametrize("replicate", ["small", "free"])
@pytest.mark.parametrize("workers", [4, 8])
def test_a_search_that_does_not_end_finds_nothing_worse_where_parts_may_overlap(workers, replicate):
    """There are more choices then, of which it sees fewer: kernels of 3 cells, and images of 12 in 8 parts."""

    def step(kernels, images):
        def loss(kernels):
            x = images
            for kernel in kernels:
                x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
                x = jax.nn.relu(x)
                x = x - x.mean((0, 1, 2))
                x = x * lax.rsqrt((x * x).mean((0, 1, 2)) + 1)
            return x.mean((1, 2)).sum()

        return jax.tree.map(lambda p, g: p - 0.1 * g, kernels, jax.grad(loss)(kernels))

    shapes = ([(3, 3, 8, 32), (3, 3, 32, 32)], (8, 12, 12, 8))
    source = read_step(step, jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, "float32"), shapes, is_leaf=_is_shape))
    settings = read_settings(workers, {"search_seconds": 0, "cache": False, "replicate": replicate})
    even = replace(JAX, moves=replace(JAX.moves, overlaps=False))
    moved = [plan_step(source, settings, engine=engine).plan.communication_bytes for engine in (JAX, even)]
    assert 0 < moved[0] <= moved[1]


def _is_shape(value):
    return isinstance(value, tuple) and isinstance(value[0], int)
