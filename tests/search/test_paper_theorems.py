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
from random_graphs import GraphSpec, elementwise, matmul, transpose_read

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


@pytest.mark.parametrize("sizes", [(4, 8, 4, 8), (16, 4, 8, 4), (8, 8, 32, 4)])
def test_under_formula_3_the_theorems_hold(sizes):
    """The cost of a sequence is that of its steps alone, so that any order costs the same, and the best step may be taken again."""
    spec = chain(sizes, "m")
    bytes_of = np.array([t.item_bytes * prod(t.shape) for t in spec.tensors])
    alphas = [weights_of(spec, plan) for plan in basic_plans(spec)]

    def cost_3(first, second):
        return alphas[first] @ bytes_of + 2 * (alphas[second] @ (bytes_of / 2))

    numbers = range(len(alphas))
    assert all(cost_3(a, b) == cost_3(b, a) for a, b in product(numbers, numbers))
    first = min(numbers, key=lambda a: alphas[a] @ bytes_of)
    second = min(numbers, key=lambda b: 2 * (alphas[b] @ (bytes_of / 2)))
    steps = [alphas[first] @ bytes_of, 2 * (alphas[second] @ (bytes_of / 2))]
    assert all(a <= b for a, b in pairwise(steps))
    assert sum(steps) == min(cost_3(a, b) for a, b in product(numbers, numbers))


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
