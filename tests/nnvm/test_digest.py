import itertools

import mxnet as mx
import numpy as np

from tofu.mxnet.runtime.arrays.shards import digest


def digest_of(values):
    return digest(mx.nd.array(values, dtype=values.dtype))


def test_changes_of_one_or_several_elements_change_the_digest():
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
    for dtype, count in itertools.product(("float32", "float64", "uint8"), (1, 3, 8, 15, 16, 17, 200)):
        values = np.arange(count).astype(dtype)
        single = [values + (np.arange(count) == place).astype(dtype) for place in range(count)]
        assert len({digest_of(array) for array in (values, values.copy(), *single)}) == 1 + count
    assert digest_of(np.zeros(8)) != digest_of(np.zeros(16))
