"""The interconnect as levels of different bandwidth: what `topology=` says, and the steps that it asks for.

Step i of the recursion is level i of the interconnect: two workers whose first different digit is that of step i read from each
other across level i, the first step at the top. A plan's communication then takes
    sum over the levels of (bytes that cross the level) / (bytes per second of the level)
seconds, which a search minimises in place of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, product
from math import prod
from pathlib import Path
from typing import Any

from tofu.errors import PlanError, raise_together
from tofu.reading import MOST_WORKERS, is_whole, parse_json, read_positive, read_text, show
from tofu.search.choices import MOST_ORDERS, factorize, list_orders

EXAMPLE = (
    'for example topology=[10e9, 50e9], or a file with {"levels": [{"workers": 2, "bytes_per_second": 10e9}, ...]}'
)

# Bytes per second that can be meant: a search counts the nanoseconds of a byte.
LEAST_BANDWIDTH, MOST_BANDWIDTH = 1.0, 1e18


@dataclass(frozen=True)
class Level:
    """One level of the interconnect.

    `bytes_per_second` is what all workers together can read across it. `workers`: into how many parts it divides the level above,
    or None for one factor of the number of workers, whichever serves best.
    """

    bytes_per_second: float
    workers: int | None = None


@dataclass(frozen=True)
class Arrangement:
    """The steps of a plan, and the bandwidth of each, in bytes per second; no bandwidths where bytes alone count."""

    factors: tuple[int, ...]
    bandwidths: tuple[float, ...] = ()

    @property
    def nanoseconds_per_byte(self) -> tuple[float, ...]:
        """What a search pays for a byte at each level."""
        return tuple(1e9 / bandwidth for bandwidth in self.bandwidths)


@dataclass(frozen=True)
class Topology:
    """The levels of the interconnect, from the top."""

    levels: tuple[Level, ...]

    def to_plain(self) -> list[dict[str, Any]]:
        """As a JSON file has it; `read_topology` reads it back."""
        named = [{"workers": level.workers, "bytes_per_second": level.bytes_per_second} for level in self.levels]
        return [{name: value for name, value in level.items() if value is not None} for level in named]

    def arrange(self, workers: int) -> tuple[Arrangement, ...]:
        """All orders of the prime factors that the levels allow. Raises PlanError where they do not make `workers`."""
        if all(level.workers is not None for level in self.levels):
            sizes = [level.workers or 1 for level in self.levels]
            if prod(sizes) != workers:
                raise PlanError(
                    f"The levels of topology= divide into {' x '.join(map(str, sizes))} workers, not into {workers}."
                )
            orders = [list_orders(factorize(size)) for size in sizes]
            return tuple(
                Arrangement(
                    tuple(factor for part in parts for factor in part),
                    tuple(level.bytes_per_second for level, part in zip(self.levels, parts, strict=True) for _ in part),
                )
                for parts in islice(product(*orders), MOST_ORDERS)
            )
        factors = factorize(workers)
        if len(factors) != len(self.levels):
            raise PlanError(
                f"topology= gives {len(self.levels)} bandwidths, and {workers} workers make {len(factors)} levels "
                f"({' x '.join(map(str, factors))}): one is needed for each. Levels of several factors are written with their "
                f"number of workers; {EXAMPLE}."
            )
        bandwidths = tuple(level.bytes_per_second for level in self.levels)
        return tuple(Arrangement(order, bandwidths) for order in list_orders(factors))


def read_topology(given: Any) -> Topology | None:
    """What the user gives: a list of levels or the path of a JSON file with one, each level a number (bytes per second) or
    {"workers": ..., "bytes_per_second": ...}. Raises PlanError for anything else.

    >>> read_topology([1e10, 5e10]).arrange(6)[1]
    Arrangement(factors=(2, 3), bandwidths=(10000000000.0, 50000000000.0))
    """
    if given is None or isinstance(given, Topology):
        return given
    if isinstance(given, (str, Path)):
        given = _read_file(Path(given))
    if isinstance(given, Mapping):
        given = given.get("levels")
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or not given:
        raise PlanError(
            f"topology= is a list of levels from the top of the interconnect; {EXAMPLE}. It was given {show(given)}."
        )
    levels = [_read_level(level) for level in given]
    wrong = [show(value) for value, level in zip(given, levels, strict=True) if level is None]
    raise_together(
        PlanError,
        f"A level of topology= is a bandwidth in bytes per second from {LEAST_BANDWIDTH:g} to {MOST_BANDWIDTH:g}, or that and a "
        f"number of workers from 2 to {MOST_WORKERS}; {EXAMPLE}. Given:",
        wrong,
    )
    read = tuple(level for level in levels if level is not None)
    if any((a.workers is None) != (b.workers is None) for a, b in pairwise(read)):
        raise PlanError(
            "topology= gives the number of workers for some levels and not for others. Give it for all or for none."
        )
    return Topology(read)


def _read_level(value: Any) -> Level | None:
    workers = None
    if isinstance(value, Mapping):
        if set(value) - {"workers", "bytes_per_second"}:
            return None
        workers, value = value.get("workers"), value.get("bytes_per_second")
    if workers is not None and (not is_whole(workers) or not 2 <= workers <= MOST_WORKERS):
        return None
    try:
        bandwidth = read_positive(value, "bytes_per_second")
    except ValueError:
        return None
    return Level(bandwidth, workers) if LEAST_BANDWIDTH <= bandwidth <= MOST_BANDWIDTH else None


def _read_file(path: Path) -> Any:
    try:
        return parse_json(read_text(path))
    except OSError as error:
        raise PlanError(f"topology= {str(path)!r}: the file cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise PlanError(f"topology= {str(path)!r}: {error}. It is a JSON file; {EXAMPLE}.") from error
