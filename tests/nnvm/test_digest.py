import mxnet as mx
import numpy as np
import pytest

from tofu.mxnet.runtime.arrays.shards import digest


def digest_of(values):
    return digest(mx.nd.array(values, dtype=values.dtype))


@pytest.mark.parametrize("count", [1, 3, 8, 15, 16, 17, 200])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_every_changed_element_changes_the_digest(count, dtype):
    values = np.arange(count).astype(dtype)
    before = digest_of(values)
    assert digest_of(values.copy()) == before
    for place in range(count):
        changed = values.copy()
        changed[place] += 1
        assert digest_of(changed) != before


def test_changes_of_several_elements_change_the_digest():
    """Sign flips, swaps and rolls would escape plain sums and exclusive ors."""
    values = np.random.RandomState(0).randn(512)
    found = {digest_of(values)}
    for first in range(0, 64, 3):
        for second in range(first + 1, 96):
            flipped, swapped = values.copy(), values.copy()
            flipped[[first, second]] *= -1
            swapped[[first, second]] = swapped[[second, first]]
            found |= {digest_of(flipped), digest_of(swapped)}
    found |= {digest_of(np.roll(values, shift)) for shift in range(1, 512)}
    assert len(found) == 1 + 2 * sum(95 - first for first in range(0, 64, 3)) + 511
    assert digest_of(np.zeros(8)) != digest_of(np.zeros(16))
