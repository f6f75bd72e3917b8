"""Measure the bandwidth between GPUs, and write it in a file for the option `topology=`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

from tofu.errors import DeviceError

SAME_LEVEL = 0.7  # pairs of one level have at least this fraction of the fastest pair's bandwidth
COPIED_BYTES = 64 << 20

Pair = tuple[int, int]  # reader, owner
Measure = Callable[[Sequence[Pair]], float]  # bytes per second of all pairs together, measured at the same time


@dataclass(frozen=True)
class Interconnect:
    """Bandwidths between GPUs.

    Attributes
    ----------
    devices
        Numbers of the GPUs.
    pairs
        `pairs[i][j]` is the bandwidth at which devices[i] reads from devices[j].
    levels
        For each level of the interconnect, the number of parts and the bandwidth of all GPUs together, in bytes per
        second. For 2 groups of 4 GPUs: ((2, 1e11), (4, 9e11)).
    """

    devices: tuple[int, ...]
    pairs: tuple[tuple[float, ...], ...]
    levels: tuple[tuple[int, float], ...]

    def to_json(self) -> str:
        """Return JSON for the option `topology=`."""
        plain = {
            "levels": [{"workers": parts, "bytes_per_second": round(rate)} for parts, rate in self.levels],
            "devices": self.devices,
            "pairs": [[round(rate) for rate in row] for row in self.pairs],
        }
        return json.dumps(plain, indent=1) + "\n"


def measure_interconnect(count: int, measure: Measure) -> Interconnect:
    """Measure the bandwidth of each pair of GPUs alone, and of all GPUs together."""
    rate_by_devices = {(i, j): measure([(i, j)]) for i in range(count) for j in range(count) if i != j}
    devices = _order_devices(count, rate_by_devices)
    rates = {(a, b): rate_by_devices[devices[a], devices[b]] for a in range(count) for b in range(count) if a != b}
    level_parts = _split_levels(count, rates)
    levels, block = [], 1
    for parts in reversed(level_parts):
        all_pairs = [(devices[w], devices[_find_partner(w, block, parts)]) for w in range(count)]
        levels.append((parts, measure(all_pairs)))
        block *= parts
    matrix = tuple(tuple(rates.get((a, b), 0.0) for b in range(count)) for a in range(count))
    return Interconnect(tuple(devices), matrix, tuple(reversed(levels)))


def _find_partner(worker: int, block: int, parts: int) -> int:
    digit = worker // block % parts
    return worker + ((digit + 1) % parts - digit) * block


def _order_devices(count: int, rates: dict[Pair, float]) -> list[int]:
    order = [0]
    while len(order) < count:
        remaining = [device for device in range(count) if device not in order]
        order.append(max(remaining, key=lambda device: ([rates[device, last] for last in reversed(order)], -device)))
    return order


def _split_levels(count: int, rates: dict[Pair, float]) -> list[int]:
    """Return the number of parts at each level, such as [2, 4] for 2 groups of 4 GPUs."""
    level_parts: list[int] = []
    block = 1
    while block < count:
        larger_blocks = [size for size in range(2 * block, count + 1, block) if count % size == 0]
        larger_block = max((size for size in larger_blocks if _is_level(block, size, rates)), default=larger_blocks[0])
        level_parts.insert(0, larger_block // block)
        block = larger_block
    return level_parts


def _is_level(block: int, larger_block: int, rates: dict[Pair, float]) -> bool:
    between_blocks = {(a, b): rate for (a, b), rate in rates.items() if a // block != b // block}
    within_larger = [rate for (a, b), rate in between_blocks.items() if a // larger_block == b // larger_block]
    return min(within_larger) >= SAME_LEVEL * max(between_blocks.values())


def measure_with_cupy() -> tuple[int, Measure]:
    """Return the number of GPUs, and a function that measures them with CuPy.

    Raise DeviceError if there are fewer than two GPUs.
    """
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            f"This measures the bandwidth between GPUs, which needs two of them and CuPy ({error}): pip install cupy-cuda11x."
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"CuPy finds no GPU ({error}), so there is nothing to measure.") from error
    if count < 2:
        raise DeviceError("There is one GPU, so there is nothing between GPUs to measure.")
    return count, _CupyMeasure(cupy, count)


class _CupyMeasure:
    def __init__(self, cupy: Any, count: int) -> None:
        self.cupy, self.arrays, self.streams = cupy, [], []
        for device in range(count):
            with cupy.cuda.Device(device):
                for peer in range(count):
                    if peer != device and cupy.cuda.runtime.deviceCanAccessPeer(device, peer):
                        _enable_access(cupy, peer)
                self.arrays.append((cupy.zeros(COPIED_BYTES, "uint8"), cupy.zeros(COPIED_BYTES, "uint8")))
                self.streams.append(cupy.cuda.Stream(non_blocking=True))

    def __call__(self, pairs: Sequence[Pair]) -> float:
        return len(pairs) * COPIED_BYTES / median(self._measure_seconds(pairs) for _ in range(7))

    def _measure_seconds(self, pairs: Sequence[Pair]) -> float:
        copies = 4  # in sequence, so that the time to launch them does not count
        begin = perf_counter()
        for reader, owner in pairs:
            with self.cupy.cuda.Device(reader):
                destination, source = self.arrays[reader][0].data.ptr, self.arrays[owner][1].data.ptr
                for _ in range(copies):
                    stream = self.streams[reader].ptr
                    self.cupy.cuda.runtime.memcpyPeerAsync(destination, reader, source, owner, COPIED_BYTES, stream)
        for reader, _ in pairs:
            self.streams[reader].synchronize()
        return (perf_counter() - begin) / copies


def _enable_access(cupy: Any, peer: int) -> None:
    try:
        cupy.cuda.runtime.deviceEnablePeerAccess(peer)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if "AlreadyEnabled" not in str(error):
            raise
