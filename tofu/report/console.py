"""Where tables are shown: the terminal, a file, or a text."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

from rich.console import Console

WIDTH_WITHOUT_TERMINAL = 240
WIDTH_OF_TEXT = 160


def make_console() -> Console:
    """The terminal; wide enough for the tables where the output goes to a file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_WITHOUT_TERMINAL)


def print_legend(console: Console, legend: str) -> None:
    """What a table means, in its own lines; where the console is narrower than these, wrapped anew instead of line by line."""
    fits = all(len(line) <= console.width for line in legend.splitlines())
    console.print(legend if fits else f"\n{' '.join(legend.split())}\n", style="dim")


def print_to_text(show: Callable[[Console], None]) -> str:
    """What `show` prints, as text."""
    text = StringIO()
    show(Console(file=text, width=WIDTH_OF_TEXT, highlight=False))
    return text.getvalue()
