"""The paper's counts of configurations and the appendix's theorems, on graphs that meet its assumptions: every index moves one
dimension of each tensor, extents are powers of two, steps are halves.

By lemma 1 the cost of one step is a weighted sum of tensor sizes, and formula (3) weighs step i with 2^(i-1) over tensors of 2^-(i-1)
times the size: under it a sequence costs the sum of what its steps cost alone on the whole graph. Then the order does not
matter and the recursion is optimal. Under the bytes between workers, none of the three theorems holds; the smallest
counterexamples stand here (docs/decisions/0024-theorems-of-the-appendix.md).
"""

from itertools import pairwise, product
from math import prod

import numpy as np
import pytest

from tests.search.random_graphs import GraphSpec, elementwise, matmul, transpose_read
from tofu import _core

WAYS_OF_ONE_TENSOR = 20
WAYS_OF_A_GROUP = 6.4e7


def feasible_sequences(graph, factors, tensor):
    sequences = [[]]
    for _ in factors:
        sequences = [[*s, d] for s in sequences for d in _core.feasible_choices(graph, factors, "tensor", tensor, s)]
    return sequences


def test_ways_to_partition_a_convolution():
    """Section 5.2: 20 ways for a 4-D tensor over 8 workers, 20^6 for the six tensors of a group; 4^6 a step with recursion."""
    graph = _core.Graph()
    shapes = {"data": (8, 64, 16, 16), "weight": (64, 64, 8, 8), "output": (8, 64, 16, 16)}
    tensors = [graph.add_tensor(list(shape), 4, False, 0) for shape in [*shapes.values(), *shapes.values()]]
    for tensor in tensors:
        sequences = feasible_sequences(graph, [2, 2, 2], tensor)
        assert len(sequences) == 4**3
        assert (
            len({tuple(sorted(s)) for s in sequences}) == WAYS_OF_ONE_TENSOR
        )  # the order of the cuts makes no other tiles
    assert WAYS_OF_ONE_TENSOR ** len(tensors) == WAYS_OF_A_GROUP
    per_step = [
        prod(len(_core.feasible_choices(graph, [2, 2, 2], "tensor", t, [0] * step)) for t in tensors)
        for step in range(3)
    ]
    assert per_step == [4**6] * 3
    assert sum(per_step) == 3 * 4096


def chain(sizes, kinds="mm"):
    """x[sizes[0], sizes[1]] through products (m), transpositions (t) and element-wise operators (e)."""
    spec = GraphSpec()
    x = spec.tensor(sizes[:2])
    widths = iter(sizes[2:])
    for kind in kinds:
        if kind == "m":
            x = matmul(spec, x, spec.tensor((next(widths), spec.tensors[x].shape[1])))
        else:
            x = transpose_read(spec, x) if kind == "t" else elementwise(spec, [x])
    spec.outputs.append(x)
    return spec


def basic_plans(spec):
    """All plans of one step: an axis of each operator, a dimension of each tensor."""
    axes = [range(len(operator.extents)) for operator in spec.operators]
    dimensions = [range(len(tensor.shape)) for tensor in spec.tensors]
    for values in product(*axes, *dimensions):
        yield np.array(values[: len(axes)])[:, None], np.array(values[len(axes) :])[:, None]


def weights_of(spec, plan):
    """Bytes moved of each tensor, as a share of its size: the alphas of lemma 1."""
    moved = np.zeros(len(spec.tensors))
    for _, tensor, _, count, _ in _core.evaluate(spec.native(), [2], *plan).items:
        moved[tensor] += count / (prod(spec.tensors[tensor].shape) * spec.tensors[tensor].item_bytes)
    return moved


def test_lemma_1_a_step_costs_a_weighted_sum_of_sizes():
    small, large = chain((4, 8, 4, 8)), chain((16, 8, 64, 32))
    for plan in list(basic_plans(small))[::7]:
        assert np.array_equal(weights_of(small, plan), weights_of(large, plan))


def graph_of_step(sizes, step):
    """A product on tensors of 2^-step times the size, as formula (3) has them: cells of half the bytes, then extents of half the length."""
    spec = chain([size >> step // 2 for size in sizes], "m")
    for tensor in spec.tensors:
        tensor.item_bytes >>= step % 2
    return spec


@pytest.mark.parametrize("sizes", [(8, 8, 4), (16, 4, 8), (8, 16, 32)])
def test_under_formula_3_the_theorems_hold(sizes):
    """Step i costs 2^(i-1) times what `evaluate` counts on the graph of that step. Theorem 1: a basic plan costs the same at any step, so
    the order does not matter. Theorem 2: no step that the search finds costs less than the one before. Theorem 3: nothing costs less
    than what it finds.
    """
    steps = [graph_of_step(sizes, step) for step in range(3)]
    plans = [list(basic_plans(spec)) for spec in steps]
    costs = np.array(
        [
            [2**step * _core.evaluate(spec.native(), [2], *plan).total_bytes for plan in plans[step]]
            for step, spec in enumerate(steps)
        ]
    )
    assert len(set(costs[0])) > 3
    assert (costs == costs[0]).all()
    found = [2**step * sum(_core.search_recursive(spec.native(), [2]).step_bytes) for step, spec in enumerate(steps)]
    assert all(earlier <= later for earlier, later in pairwise(found))
    sequences = costs[0][:, None, None] + costs[1][None, :, None] + costs[2][None, None, :]
    assert sum(found) == sequences.min() > 0


def read_bytes(shape, choice, layout):
    """A tensor in a layout, read cell by cell by an operator with that choice."""
    spec = GraphSpec()
    y = elementwise(spec, [spec.tensor(shape)])
    spec.outputs.append(y)
    arrays = np.array([choice]), np.array([layout, choice])
    return _core.evaluate(spec.native(), [2, 2], *arrays).total_bytes


def test_theorem_1_fails_between_workers():
    """Laid out (0, 0) and read as (0, 1), 4 x 2 cells move S/2; with both steps exchanged, (0, 0) and (1, 0), they move 3 S/4."""
    size = 4 * 2 * 4
    assert read_bytes((4, 2), (0, 1), (0, 0)) == size / 2
    assert read_bytes((4, 2), (1, 0), (0, 0)) == 3 * size / 4
    for shape in [(2, 2), (4, 1), (1, 4), (2, 1), (1, 2), (6, 1), (2, 3), (3, 2)]:  # nothing smaller than 8 cells
        feasible = [s for s in product(range(2), repeat=2) if all(shape[d] >= 2 ** s.count(d) for d in set(s))]
        for choice, layout in product(feasible, feasible):
            assert read_bytes(shape, choice, layout) == read_bytes(shape, choice[::-1], layout[::-1])


def test_theorem_2_fails_between_workers():
    """x + transpose(x), 4 x 4: rows against columns move S/2; tiles of both move no more, only two workers exchange theirs."""
    spec = GraphSpec()
    x = spec.tensor((4, 4))
    spec.outputs.append(elementwise(spec, [transpose_read(spec, x), x]))
    assert _core.search_recursive(spec.native(), [2, 2]).step_bytes == [32, 0]


def test_theorem_3_fails_between_workers():
    """One product, (4 x 2) by (2 x 4): the best first step leaves the second with no good one. Nothing smaller does that."""
    graph = chain((4, 2, 4), "m").native()
    assert _core.search_recursive(graph, [2, 2]).step_bytes == [32, 48]
    assert sum(_core.search_exact(graph, [2, 2]).plan.step_bytes) == 64
    for sizes in product((2, 4, 8), repeat=3):
        b, k, h = sizes
        if b * k + h * k + b * h < 4 * 2 + 4 * 2 + 4 * 4:
            graph = chain(sizes, "m").native()
            found = sum(_core.search_recursive(graph, [2, 2]).step_bytes)
            assert found == sum(_core.search_exact(graph, [2, 2]).plan.step_bytes), sizes
