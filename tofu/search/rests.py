"""Which extents workers can share without a rest, for engines that need equal parts and split what has none into parts that overlap."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache


def always_divides(extents: Sequence[int], factors: Sequence[int]) -> bool:
    """Whether at each step some extent is split without a rest, whichever was at the steps before.

    >>> always_divides((8, 3), (2, 2)), always_divides((4, 3), (2, 2, 2))
    (True, False)
    """
    return _divides(tuple(sorted(extents)), tuple(factors))


@cache
def _divides(extents: tuple[int, ...], factors: tuple[int, ...]) -> bool:
    if not factors:
        return True
    following = {
        tuple(sorted((*extents[:d], extent // factors[0], *extents[d + 1 :])))
        for d, extent in enumerate(extents)
        if extent % factors[0] == 0
    }
    return bool(following) and all(_divides(one, factors[1:]) for one in following)


@cache
def can_divide(extents: tuple[int, ...], factors: tuple[int, ...]) -> bool:
    """Whether the steps can split extents without a rest.

    >>> can_divide((8, 3), (2, 3)), can_divide((8, 8), (2, 3))
    (True, False)
    """
    if not factors:
        return True
    return any(
        extent % factors[0] == 0 and can_divide((*extents[:d], extent // factors[0], *extents[d + 1 :]), factors[1:])
        for d, extent in enumerate(extents)
    )


def leaves_rest(extent: int, factors: Sequence[int]) -> bool:
    """Whether some of the steps can split an extent into parts that differ.

    >>> leaves_rest(6, (2, 2)), leaves_rest(4, (2, 2, 2))
    (True, False)
    """
    reached = {extent}
    for factor in factors:
        if any(parts >= factor and parts % factor for parts in reached):
            return True
        reached |= {parts // factor for parts in reached if parts % factor == 0}
    return False
