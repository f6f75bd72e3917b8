"""Progress of a long search, on a terminal and only where it takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

SILENT_SECONDS = 1.0


@contextmanager
def search_progress(workers: int) -> Iterator[Callable[[int, int], None]]:
    """Yields `report(steps_done, step_bytes)`, which writes a line to the terminal once the search has run for a second."""
    started = time.perf_counter()
    console = Console(stderr=True)

    def report(steps_done: int, step_bytes: int) -> None:
        elapsed = time.perf_counter() - started
        if sys.stderr.isatty() and elapsed > SILENT_SECONDS:
            console.print(
                f"tofu: searching for {workers} workers, {steps_done} steps done, {elapsed:.1f} s", style="dim"
            )

    yield report
