"""Rounds of the recursion (section 5.2), one for each prime factor of the number of workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from math import factorial, prod

from sympy import factorint

MOST_ORDERS = 64  # below 720 workers, all orders are searched


def factorize(workers: int) -> tuple[int, ...]:
    """Return the prime factors of the number of workers, the largest first.

    >>> factorize(6)
    (3, 2)
    """
    return tuple(reversed(factorint(workers, multiple=True)))


def list_orders(factors: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return up to `MOST_ORDERS` orders of the factors, first those that begin with a large factor.

    >>> list_orders((3, 2, 2))
    ((3, 2, 2), (2, 3, 2), (2, 2, 3))
    """
    return tuple(islice(_walk_orders(Counter(factors), len(factors)), MOST_ORDERS))


def count_orders(factors: Sequence[int]) -> int:
    """Return the number of different orders of the factors.

    >>> count_orders((3, 2, 2))
    3
    """
    return factorial(len(factors)) // prod(map(factorial, Counter(factors).values()))


def _walk_orders(left: Counter[int], length: int) -> Iterator[tuple[int, ...]]:
    if length == 0:
        yield ()
    for factor in sorted((factor for factor, count in left.items() if count), reverse=True):
        yield from ((factor, *rest) for rest in _walk_orders(left - Counter([factor]), length - 1))


@cache
def always_divides(extents: tuple[int, ...], factors: tuple[int, ...]) -> bool:
    """Return True if each factor divides a length, whatever lengths the earlier factors divided.

    >>> always_divides((8, 3), (2, 2)), always_divides((4, 3), (2, 2, 2))
    (True, False)
    """
    if not factors:
        return True
    following = {
        tuple(sorted((*extents[:d], extent // factors[0], *extents[d + 1 :])))
        for d, extent in enumerate(extents)
        if extent % factors[0] == 0
    }
    return bool(following) and all(always_divides(divided, factors[1:]) for divided in following)


@cache
def can_divide(extents: tuple[int, ...], factors: tuple[int, ...]) -> bool:
    """Return True if the factors can divide the lengths, one after another.

    >>> can_divide((8, 3), (2, 3)), can_divide((8, 8), (2, 3))
    (True, False)
    """
    if not factors:
        return True
    return any(
        extent % factors[0] == 0 and can_divide((*extents[:d], extent // factors[0], *extents[d + 1 :]), factors[1:])
        for d, extent in enumerate(extents)
    )


def leaves_remainder(extent: int, factors: Sequence[int]) -> bool:
    """Return True if dividing `extent` by some of the factors leaves a remainder, as in 6 / 2 / 2.

    >>> leaves_remainder(6, (2, 2)), leaves_remainder(4, (2, 2, 2))
    (True, False)
    """
    reached = {extent}
    for factor in factors:
        if any(parts >= factor and parts % factor for parts in reached):
            return True
        reached |= {parts // factor for parts in reached if parts % factor == 0}
    return False
