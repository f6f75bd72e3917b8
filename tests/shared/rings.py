"""Bytes and waits of collectives over rings, on an interconnect with several levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, prod


@dataclass(frozen=True)
class Link:
    """Level of the interconnect: the number of groups that it joins, and the bandwidth and latency of one device."""

    size: int
    bytes_per_second: float
    latency_seconds: float


@dataclass
class Traffic:
    """Bytes that a device receives, and its waits, for each level, the top level first."""

    links: Sequence[Link]
    level_bytes: list[float] = field(init=False)
    level_waits: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.level_bytes, self.level_waits = [0.0] * len(self.links), [0.0] * len(self.links)

    def gather(self, group: Sequence[int], size_bytes: float, messages: float) -> None:
        """Add all-gathers with results of `size_bytes` in total, or reduce-scatters with such operands.

        In a ring of g devices, each receives the parts of g - 1 others. A ring across a higher level excludes the parts
        that the devices below share among themselves.
        """
        for level, extent in enumerate(group):
            if extent > 1 and size_bytes:
                self.level_bytes[level] += size_bytes / prod(group[level + 1 :]) * (extent - 1) / extent
                self.level_waits[level] += messages

    def reduce(self, group: Sequence[int], size_bytes: float, messages: float) -> None:
        self.gather(group, 2 * size_bytes, 2 * messages)

    def send(self, group: Sequence[int], size_bytes: float, messages: float) -> None:
        """Add messages from neighbours in a group, across the highest level between its members."""
        level = next((level for level, extent in enumerate(group) if extent > 1), None)
        if level is not None:
            self.level_bytes[level] += size_bytes
            self.level_waits[level] += messages

    @property
    def seconds(self) -> float:
        each = zip(self.links, self.level_bytes, self.level_waits, strict=True)
        return sum(size / link.bytes_per_second + waits * link.latency_seconds for link, size, waits in each)


def split_group(links: Sequence[Link], apart: int, size: int) -> tuple[int, ...]:
    """Return the extents, by level, of groups of `size` devices whose neighbours are `apart` devices apart.

    >>> split_group([Link(4, 1, 0), Link(8, 1, 0)], 2, 16)
    (4, 4)
    """
    extents, left = [], size
    for link in reversed(links):
        skipped = gcd(apart, link.size)
        extents.append(gcd(left, link.size // skipped))
        apart, left = apart // skipped, left // extents[-1]
    if apart > 1 or left > 1:
        raise ValueError(f"The levels {[link.size for link in links]} have no such groups of {size} devices.")
    return tuple(reversed(extents))


def assign_rounds(links: Sequence[Link], factors: Sequence[int]) -> tuple[Link, ...]:
    """Return the level of each round of a plan. Raise ValueError if a round divides workers across two levels.

    >>> [link.size for link in assign_rounds([Link(4, 1, 0), Link(8, 1, 0)], (2, 2, 8))]
    [4, 4, 8]
    """
    assigned, left = [], [link.size for link in links]
    for factor in factors:
        level = next(level for level, size in enumerate(left) if size > 1)
        left[level], rest = divmod(left[level], factor)
        if rest:
            raise ValueError(f"The rounds {factors} do not follow the levels {[link.size for link in links]}.")
        assigned.append(links[level])
    return tuple(assigned)
