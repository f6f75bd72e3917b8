"""Find how much memory this process may use, given the limits of the machine and of the container."""

from __future__ import annotations

import math
import resource
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of control groups version 2 and version 1
IN_USE = ("memory.current", "memory/memory.usage_in_bytes")


def read_free_bytes() -> float:
    """Return the bytes that this process can still use without swapping. Return infinity if unknown."""
    free_bytes = [_read_meminfo("MemAvailable"), _find_free_address_bytes()]
    for limit_file, used_file in zip(LIMITS, IN_USE, strict=True):
        free_bytes.append(_subtract(_read_number(CGROUP / limit_file), _read_number(CGROUP / used_file)))
    return min((size for size in free_bytes if size is not None), default=math.inf)


def read_total_bytes() -> float:
    """Return the most memory and swap that this process may use, in bytes. Return infinity if unknown."""
    memory, swap = _read_meminfo("MemTotal"), _read_meminfo("SwapTotal")
    total = None if memory is None else memory + (swap or 0)
    total_bytes = [total, *(_read_number(CGROUP / limit) for limit in LIMITS)]
    return min((size for size in total_bytes if size is not None), default=math.inf)


def read_address_bytes() -> int:
    """Return the virtual memory size of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _find_free_address_bytes() -> int | None:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    return _subtract(limit, read_address_bytes())


def _subtract(limit_bytes: int | None, used_bytes: int | None) -> int | None:
    return None if limit_bytes is None or used_bytes is None else max(limit_bytes - used_bytes, 0)


def _read_meminfo(name: str) -> int | None:
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
