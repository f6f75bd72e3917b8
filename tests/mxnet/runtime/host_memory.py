"""What the host holds while something runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")


def resident_bytes() -> int:
    """Bytes of this process that lie in memory, files mapped into it aside."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) << 10


def peak_bytes(run: Callable[[], Any]) -> int:
    """By how many bytes the process grew at most while `run` ran."""
    done = threading.Event()
    before = resident_bytes()
    seen = [before]

    def sample() -> None:
        while not done.wait(0.0005):
            seen.append(resident_bytes())

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        run()
    finally:
        done.set()
        sampler.join()
    return max(seen) - before
