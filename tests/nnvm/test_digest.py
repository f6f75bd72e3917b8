"""A digest tells apart what an array holds at different times."""

import mxnet as mx
import numpy as np
import pytest

from tofu.mxnet.runtime.arrays.shards import digest


def digest_of(cells):
    return digest(mx.nd.array(cells, dtype=cells.dtype))


@pytest.mark.parametrize("count", [1, 3, 8, 15, 16, 17, 64, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_every_change_of_a_cell_is_seen(count, dtype):
    cells = np.arange(count).astype(dtype)
    before = digest_of(cells)
    assert digest_of(cells.copy()) == before
    for place in range(count):
        changed = cells.copy()
        changed[place] += 1
        assert digest_of(changed) != before


def test_changes_of_several_cells_are_seen():
    """Signs of cells of one lane, cells that change places, rows that move: sums and exclusive ors of words would miss some of them."""
    cells = np.random.RandomState(0).randn(512)
    found = {digest_of(cells)}
    for first in range(64):
        for second in range(first + 1, 96):
            flipped, swapped = cells.copy(), cells.copy()
            flipped[[first, second]] *= -1
            swapped[[first, second]] = swapped[[second, first]]
            found |= {digest_of(flipped), digest_of(swapped)}
    found |= {digest_of(np.roll(cells, shift)) for shift in range(1, 512)}
    assert len(found) == 1 + 2 * sum(95 - first for first in range(64)) + 511
    assert digest_of(np.zeros(8)) != digest_of(np.zeros(16))
