"""The theorems of the paper's appendix hold under formula (3), and fail under the bytes between workers
(docs/decisions/0012-cost-at-the-leaves.md)."""

from itertools import pairwise, product

import numpy as np
import pytest

from tests.search.plans import list_plans
from tests.search.random_graphs import GraphSpec, elementwise, matmul, transpose_read
from tofu import _core


def make_chain(sizes, kinds="mm"):
    """Return x[sizes[0], sizes[1]] through products (m), transpositions (t) and element-wise operators (e)."""
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


def graph_of_step(sizes, step):
    """Return a product on tensors of 2^-step times the size: smaller elements, then half the extents."""
    spec = make_chain([size >> step // 2 for size in sizes], "m")
    for tensor in spec.tensors:
        tensor.item_bytes >>= step % 2
    return spec


@pytest.mark.parametrize("sizes", [(8, 8, 4), (16, 4, 8), (8, 16, 32)])
def test_under_formula_3_the_theorems_hold(sizes):
    steps = [graph_of_step(sizes, step) for step in range(3)]
    plans = [list_plans(spec, [2], most=100) for spec in steps]
    costs = np.array(
        [
            [2**step * _core.evaluate(spec.native(), [2], *plan).total_bytes for plan in plans[step]]
            for step, spec in enumerate(steps)
        ]
    )
    assert len(set(costs[0])) > 3
    assert (costs == costs[0]).all()
    found = [2**step * sum(_core.search_recursive(spec.native(), [2]).round_bytes) for step, spec in enumerate(steps)]
    assert all(earlier <= later for earlier, later in pairwise(found))
    sequences = costs[0][:, None, None] + costs[1][None, :, None] + costs[2][None, None, :]
    assert sum(found) == sequences.min() > 0


def read_bytes(shape, choice, layout):
    spec = GraphSpec()
    y = elementwise(spec, [spec.tensor(shape)])
    spec.outputs.append(y)
    arrays = np.array([choice]), np.array([layout, choice])
    return _core.evaluate(spec.native(), [2, 2], *arrays).total_bytes


def test_theorem_1_fails_between_workers():
    """A 4 x 2 tensor, stored as (0, 0) and read as (0, 1), transfers S/2. In the other order of rounds, it transfers 3 S/4."""
    size = 4 * 2 * 4
    assert read_bytes((4, 2), (0, 1), (0, 0)) == size / 2
    assert read_bytes((4, 2), (1, 0), (0, 0)) == 3 * size / 4
    for shape in [(2, 2), (4, 1), (1, 4), (2, 1), (1, 2), (6, 1), (2, 3), (3, 2)]:  # nothing smaller than 8 cells
        feasible = [s for s in product(range(2), repeat=2) if all(shape[d] >= 2 ** s.count(d) for d in set(s))]
        for choice, layout in product(feasible, feasible):
            assert read_bytes(shape, choice, layout) == read_bytes(shape, choice[::-1], layout[::-1])


def test_theorem_2_fails_between_workers():
    """Rows against columns of x + transpose(x) transfer S/2. Tiles of both transfer no more."""
    spec = GraphSpec()
    x = spec.tensor((4, 4))
    spec.outputs.append(elementwise(spec, [transpose_read(spec, x), x]))
    assert _core.search_recursive(spec.native(), [2, 2]).round_bytes == [32, 0]


def test_theorem_3_fails_between_workers():
    """For (4 x 2) by (2 x 4), the best first round prevents a good second round. No smaller product does."""
    graph = make_chain((4, 2, 4), "m").native()
    assert _core.search_recursive(graph, [2, 2]).round_bytes == [32, 48]
    assert sum(_core.search_exact(graph, [2, 2]).plan.round_bytes) == 64
    for sizes in product((2, 4, 8), repeat=3):
        b, k, h = sizes
        if b * k + h * k + b * h < 4 * 2 + 4 * 2 + 4 * 4:
            graph = make_chain(sizes, "m").native()
            found = sum(_core.search_recursive(graph, [2, 2]).round_bytes)
            assert found == sum(_core.search_exact(graph, [2, 2]).plan.round_bytes), sizes
