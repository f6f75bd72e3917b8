"""Show the progress of planning and of commands on stderr, if they take longer than two seconds.

On a terminal, one line is rewritten twice a second. Elsewhere, a line is printed after 2, 10, 30 and 60 seconds, and then
every minute. To turn this off, set the level of the logger "tofu" above WARNING.
"""

from __future__ import annotations

import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from typing import TypeVar

from rich.console import Console
from rich.progress import track

from tofu.formatting import format_bytes

SILENT_SECONDS = 2.0  # before the first line
SECONDS_OF_LINES = (10.0, 30.0, 60.0)  # times of the next lines if stderr is no terminal
SECONDS_BETWEEN_LINES = 60.0  # after these
SECONDS_BETWEEN_LOOKS = 0.5
CLEAR_LINE = "\x1b[2K"
NOT_WRITTEN = OSError, ValueError, AttributeError  # stderr was closed, or replaced by another object

T = TypeVar("T")
logger = logging.getLogger("tofu")


class _Display:
    """The progress of one thread. A second thread prints it, because searches and compilers do not return for minutes.

    `stages` are the texts of the open `show_progress` contexts, the outermost first.
    """

    def __init__(self) -> None:
        self.stages: list[list[str]] = []
        self._start_time = time.monotonic()
        self._next_line_seconds = SILENT_SECONDS
        self._has_line = False  # on the terminal
        self._is_done = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._print_until_done, name="tofu-progress", daemon=True).start()

    def _print_until_done(self) -> None:
        with suppress(*NOT_WRITTEN):
            while not self._is_done.wait(SECONDS_BETWEEN_LOOKS):
                with self._lock:
                    self._print_line()

    def _print_line(self) -> None:
        seconds = time.monotonic() - self._start_time
        text = ", ".join(filter(None, (stage for (stage,) in self.stages)))
        if not text or seconds < SILENT_SECONDS or sys.stderr is None or not logger.isEnabledFor(logging.WARNING):
            return
        line = f"tofu: {text}, {seconds:.0f} s"
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"{CLEAR_LINE}{line[:width]}\r")  # other output overwrites the line
            sys.stderr.flush()
            self._has_line = True
        elif seconds >= self._next_line_seconds:
            later = (each for each in SECONDS_OF_LINES if each > seconds)
            self._next_line_seconds = next(later, seconds + SECONDS_BETWEEN_LINES)
            print(line, file=sys.stderr, flush=True)

    def close(self, stage: list[str]) -> bool:
        """Remove the text of a context. Return True if no other context is open."""
        with self._lock:
            self.stages = [each for each in self.stages if each is not stage]
            if self._has_line and not any(text for (text,) in self.stages):
                self._has_line = False
                with suppress(*NOT_WRITTEN):
                    sys.stderr.write(CLEAR_LINE)
                    sys.stderr.flush()
        if not self.stages:
            self._is_done.set()
        return not self.stages


class _Displays(threading.local):
    current: _Display | None = None


_displays = _Displays()


@contextmanager
def show_progress(stage: str = "") -> Iterator[Callable[[str], None]]:
    """Show the text `stage` and the elapsed time. Yield a function `report(stage)` that replaces the text.

    Contexts can be nested. Their texts are then joined, and the time counts from the start of the outermost context.
    """
    display = _displays.current = _displays.current or _Display()
    texts = [stage]
    display.stages = [*display.stages, texts]

    def report(stage: str) -> None:
        texts[0] = stage

    try:
        yield report
    finally:
        if display.close(texts) and _displays.current is display:
            _displays.current = None


@contextmanager
def search_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function `report(stage, best_bytes, bound_bytes)` that shows the state of a search."""
    with show_progress() as report:

        def report_search(stage: str, best_bytes: int, bound_bytes: int) -> None:
            best = f", {format_bytes(best_bytes)} at best" if best_bytes >= 0 else ""
            bound = f", {format_bytes(bound_bytes)} at least" if bound_bytes > 0 else ""
            report(f"search ({stage}){best}{bound}")

        yield report_search


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
    with show_progress(f"{task}, 0 of {count}") as report:
        for number, item in enumerate(items, 1):
            yield item
            report(f"{task}, {number} of {count}")
