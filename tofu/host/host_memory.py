"""Memory that this process may use: within the machine, its control group, and its limit of address space."""

from __future__ import annotations

import math
import resource
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of control groups version 2 and version 1
IN_USE = ("memory.current", "memory/memory.usage_in_bytes")


def read_free_bytes() -> float:
    """Return the bytes that this process can still use without swapping; infinity if the system reports nothing."""
    left = [_meminfo("MemAvailable"), _left_of_address_space()]
    for limit, used in zip(LIMITS, IN_USE, strict=True):
        left.append(_difference(_read_number(CGROUP / limit), _read_number(CGROUP / used)))
    return min((size for size in left if size is not None), default=math.inf)


def read_total_bytes() -> float:
    """Return the bytes of memory and swap for this process, used or not; infinity if the system reports nothing."""
    memory, swap = _meminfo("MemTotal"), _meminfo("SwapTotal")
    known = [None if memory is None else memory + (swap or 0), *(_read_number(CGROUP / limit) for limit in LIMITS)]
    return min((size for size in known if size is not None), default=math.inf)


def read_address_bytes() -> int:
    """Return the bytes of address space in use, including pages that occupy no memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _left_of_address_space() -> int | None:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    return _difference(limit, read_address_bytes())


def _difference(limit: int | None, used: int | None) -> int | None:
    return None if limit is None or used is None else max(limit - used, 0)


def _meminfo(name: str) -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:")), None)


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such group, or no limit
        return None
