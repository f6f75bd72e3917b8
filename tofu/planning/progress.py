"""Progress of a long search, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.console import Console
from rich.progress import track

from tofu.plan import format_bytes

SILENT_SECONDS = 1.0


@contextmanager
def search_progress(workers: int) -> Iterator[Callable[[str, int, int], None]]:
    """Yield `report(stage, best_bytes, bound_bytes)`, which prints a line for every second of a search."""
    started = written = time.perf_counter()
    console = Console(stderr=True)

    def report(stage: str, best_bytes: int, bound_bytes: int) -> None:
        nonlocal written
        now = time.perf_counter()
        if not sys.stderr.isatty() or now - written < SILENT_SECONDS:
            return
        written = now
        best = f", {format_bytes(best_bytes)} at best" if best_bytes >= 0 else ""
        bound = f", {format_bytes(bound_bytes)} at least" if bound_bytes > 0 else ""
        console.print(
            f"tofu: searching for {workers} workers, {stage}{best}{bound}, {now - started:.1f} s", style="dim"
        )

    yield report


@contextmanager
def stage_progress() -> Iterator[Callable[[str], None]]:
    """Yield `report(stage)`, which shows the current stage on a terminal."""
    console = Console(stderr=True)
    with console.status("tofu") if sys.stderr.isatty() else nullcontext() as status:
        yield lambda stage: None if status is None else status.update(f"tofu: {stage}")


def track_progress(items: Sequence[Any], what: str) -> Iterable[Any]:
    """Return the same items, with a progress bar on a terminal while they are iterated."""
    return track(
        items,
        f"tofu: {what}",
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
