"""Extents that are always split without a remainder, compared with all splits."""

from itertools import product

import pytest

from tofu.search.rounds import always_divides, leaves_remainder


@pytest.mark.parametrize("factors", [(2,), (2, 2), (3, 2), (2, 2, 2), (4, 2)])
def test_divisibility_equals_all_splits(factors):
    for extents in product(range(1, 13), repeat=2):
        assert always_divides(extents, factors) == _always_divides(extents, factors), extents
    for extent in range(1, 40):
        assert leaves_remainder(extent, factors) == (not _leaves_no_remainder(extent, factors)), extent


def _always_divides(extents, factors):
    if not factors:
        return True
    steps = [(d, extent // factors[0]) for d, extent in enumerate(extents) if extent % factors[0] == 0]
    return bool(steps) and all(_always_divides((*extents[:d], own, *extents[d + 1 :]), factors[1:]) for d, own in steps)


def _leaves_no_remainder(extent, factors):
    if not factors:
        return True
    skipped = _leaves_no_remainder(extent, factors[1:])
    if extent < factors[0]:
        return skipped
    return skipped and extent % factors[0] == 0 and _leaves_no_remainder(extent // factors[0], factors[1:])
