"""Show the progress of searches and commands on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import track

from tofu.formatting import format_bytes

SILENT_SECONDS = 1.0  # between two lines on a terminal
SECONDS_OF_A_LINE = 10.0  # between two lines if stderr is no terminal

T = TypeVar("T")


@contextmanager
def search_progress(workers: int) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function `report(stage, best_bytes, bound_bytes)`. On a terminal, it prints a line at most once a second."""
    start_time = last_line_time = time.perf_counter()
    console = Console(stderr=True)

    def report(stage: str, best_bytes: int, bound_bytes: int) -> None:
        nonlocal last_line_time
        now = time.perf_counter()
        if not sys.stderr.isatty() or now - last_line_time < SILENT_SECONDS:
            return
        last_line_time = now
        best = f", {format_bytes(best_bytes)} at best" if best_bytes >= 0 else ""
        bound = f", {format_bytes(bound_bytes)} at least" if bound_bytes > 0 else ""
        console.print(
            f"tofu: searching for {workers} workers, {stage}{best}{bound}, {now - start_time:.1f} s", style="dim"
        )

    yield report


@contextmanager
def stage_progress() -> Iterator[Callable[[str], None]]:
    """Yield a function `report(stage)` that shows the current stage. Without a terminal, it prints a line every ten seconds."""
    if sys.stderr.isatty():
        with Console(stderr=True).status("tofu") as status:
            yield lambda stage: status.update(f"tofu: {stage}")
        return
    start_time = last_line_time = time.monotonic()

    def report(stage: str) -> None:
        nonlocal last_line_time
        now = time.monotonic()
        if now - last_line_time >= SECONDS_OF_A_LINE:
            last_line_time = now
            print(f"tofu: {stage}, {now - start_time:.0f} s", file=sys.stderr, flush=True)

    yield report


def track_progress(
    items: Iterable[T], task: str, count: int | None = None, console: Console | None = None
) -> Iterator[T]:
    """Yield `items`, and show how many are done.

    Pass `count` if `items` has no length. Pass `console` if other lines are printed to it at the same time.
    """
    count = len(items) if isinstance(items, Sized) else count
    if sys.stderr.isatty():
        console = console or Console(stderr=True)
        yield from track(items, f"tofu: {task}", total=count, console=console, transient=True)
        return
    start_time = last_line_time = time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - last_line_time >= SECONDS_OF_A_LINE:
            last_line_time = now
            print(f"tofu: {task}, {number} of {count}, {now - start_time:.0f} s", file=sys.stderr, flush=True)
