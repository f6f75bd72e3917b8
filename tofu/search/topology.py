"""The interconnect between workers, as `topology=` describes it.

An interconnect has levels, such as the network between hosts above the links within a host. The first rounds of a plan
split over the top level, the next rounds over the level below it, and so on. A search then minimises the seconds of
communication instead of bytes:

      sum over the levels of (bytes that cross the level) / (bytes per second of the level)
    + sum over the levels of (reads that cross the level) x (latency of the level)

Workers read at the same time, so the reads of all workers count as one. A sum in two stages counts as two reads.
Neighbouring rounds of equal bandwidth and latency are one level. If `TransferRules.relays_in_groups` is set, workers in
the same group below a level count as one worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, pairwise, product
from math import prod
from pathlib import Path
from typing import Any

from tofu.errors import PlanError, raise_together
from tofu.plan import Plan
from tofu.search.rounds import MOST_ORDERS, factorize, list_orders
from tofu.validation import MOST_WORKERS, is_integer, parse_json, read_not_negative, read_positive, read_text, show

EXAMPLE = (
    'for example topology=[10e9, 50e9], or a file with {"levels": [{"workers": 2, "bytes_per_second": 10e9}, ...]}'
)

# Bytes per second. Within these limits, the nanoseconds of a byte can be counted.
LEAST_BANDWIDTH, MOST_BANDWIDTH = 1.0, 1e18
MOST_MICROSECONDS = 1e6


@dataclass(frozen=True)
class Level:
    """A level of the interconnect, such as the network between hosts.

    Attributes
    ----------
    bytes_per_second
        The bandwidth of the level, for all workers together.
    workers
        The number of groups that the level connects, such as the 8 devices of a host. If all levels have None, each level
        belongs to one prime factor of the number of workers.
    microseconds
        The time before a read across the level begins.
    """

    bytes_per_second: float
    workers: int | None = None
    microseconds: float = 0.0


@dataclass(frozen=True)
class Arrangement:
    """The number of parts in each round of a plan, and the speed of the links between these parts.

    `bandwidths` are in bytes per second, and `latencies` in microseconds. Without bandwidths, a search minimises bytes.
    `latencies` is empty if all are zero.
    """

    factors: tuple[int, ...]
    bandwidths: tuple[float, ...] = ()
    latencies: tuple[float, ...] = ()

    @property
    def nanoseconds(self) -> dict[str, tuple[float, ...]]:
        """Nanoseconds per byte ("prices") and before a read ("latencies"), with a number for each round."""
        return {
            "prices": tuple(1e9 / bandwidth for bandwidth in self.bandwidths),
            "latencies": tuple(1e3 * latency for latency in self.latencies),
        }


def read_arrangement(plan: Plan) -> Arrangement:
    """Return the rounds and the interconnect of a plan."""
    return Arrangement(plan.factors, plan.bandwidths, plan.latencies)


@dataclass(frozen=True)
class Topology:
    """The levels of the interconnect, the top level first."""

    levels: tuple[Level, ...]

    def to_plain(self) -> list[dict[str, Any]]:
        """Return the levels as a list for a JSON file."""
        return [{name: value for name, value in asdict(level).items() if value} for level in self.levels]

    def arrange(self, workers: int) -> tuple[Arrangement, ...]:
        """Return an `Arrangement` for each possible order of the prime factors of `workers`.

        Raises PlanError if the levels do not fit this number of workers.
        """
        if all(level.workers is not None for level in self.levels):
            sizes = [level.workers or 1 for level in self.levels]
            if prod(sizes) != workers:
                raise PlanError(
                    f"The levels of topology= divide into {' x '.join(map(str, sizes))} workers, not into {workers}. "
                    f"Give levels whose workers multiply to {workers}, or ask for {prod(sizes)} workers."
                )
            orders = [list_orders(factorize(size)) for size in sizes]
            return tuple(self._arrange(parts) for parts in islice(product(*orders), MOST_ORDERS))
        factors = factorize(workers)
        if len(factors) != len(self.levels):
            raise PlanError(
                f"topology= gives {len(self.levels)} bandwidths, and {workers} workers make {len(factors)} levels "
                f"({' x '.join(map(str, factors))}): one is needed for each. Levels of several factors are written with their "
                f"number of workers; {EXAMPLE}."
            )
        return tuple(self._arrange([(factor,) for factor in order]) for order in list_orders(factors))

    def _arrange(self, parts: Sequence[Sequence[int]]) -> Arrangement:
        levels = [level for level, part in zip(self.levels, parts, strict=True) for _ in part]
        latencies = tuple(level.microseconds for level in levels)
        return Arrangement(
            tuple(factor for part in parts for factor in part),
            tuple(level.bytes_per_second for level in levels),
            latencies if any(latencies) else (),
        )


def read_topology(given: Any) -> Topology | None:
    """Read `topology=`: a list of the interconnect's levels, or a JSON file with this list.

    Each level is a number (bytes per second) or {"workers": ..., "bytes_per_second": ..., "microseconds": ...}, where
    only "bytes_per_second" is required. Raises PlanError for any other value.

    >>> read_topology([1e10, 5e10]).arrange(6)[1]
    Arrangement(factors=(2, 3), bandwidths=(10000000000.0, 50000000000.0), latencies=())
    """
    if given is None or isinstance(given, Topology):
        return given
    source = given
    if isinstance(given, (str, Path)):
        given = _read_file(Path(given))
    if isinstance(given, Mapping):
        given = given.get("levels")
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or not given:
        raise PlanError(
            f"topology= is a list of levels from the top of the interconnect; {EXAMPLE}. It was given {show(source)}."
        )
    levels = [_read_level(level) for level in given]
    wrong = [show(value) for value, level in zip(given, levels, strict=True) if level is None]
    raise_together(
        PlanError,
        f"A level of topology= is a bandwidth in bytes per second from {LEAST_BANDWIDTH:g} to {MOST_BANDWIDTH:g}, or that and a "
        f"number of workers from 2 to {MOST_WORKERS}, or microseconds from 0 to {MOST_MICROSECONDS:g}; {EXAMPLE}. Given:",
        wrong,
    )
    read = tuple(level for level in levels if level is not None)
    if any((a.workers is None) != (b.workers is None) for a, b in pairwise(read)):
        raise PlanError(
            "topology= gives the number of workers for some levels and not for others. Give it for all or for none."
        )
    return Topology(read)


def _read_level(value: Any) -> Level | None:
    workers, waited = None, 0
    if isinstance(value, Mapping):
        if set(value) - {"workers", "bytes_per_second", "microseconds"}:
            return None
        workers, waited, value = value.get("workers"), value.get("microseconds", 0), value.get("bytes_per_second")
    if workers is not None and (not is_integer(workers) or not 2 <= workers <= MOST_WORKERS):
        return None
    try:
        bandwidth = read_positive(value, "bytes_per_second")
        microseconds = read_not_negative(waited, "microseconds")
    except ValueError:
        return None
    is_meant = LEAST_BANDWIDTH <= bandwidth <= MOST_BANDWIDTH and microseconds <= MOST_MICROSECONDS
    return Level(bandwidth, workers, microseconds) if is_meant else None


def _read_file(path: Path) -> Any:
    try:
        return parse_json(read_text(path))
    except OSError as error:
        raise PlanError(
            f"topology= {str(path)!r}: the file cannot be read ({error.strerror}). Name another, or write bandwidths; {EXAMPLE}."
        ) from error
    except ValueError as error:
        raise PlanError(f"topology= {str(path)!r}: {error}. It is a JSON file; {EXAMPLE}.") from error
