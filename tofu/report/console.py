"""Print tables and notes to the terminal, to a file, or to a string."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from textwrap import fill

from rich.console import Console
from rich.table import Table

WIDTH_WITHOUT_TERMINAL = 240
WIDTH_OF_TEXT = 160
WIDTH_OF_LEGEND = 140


def make_console() -> Console:
    """Return a `Console` for stdout. If the output goes to a file, lines are long enough for tables."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_WITHOUT_TERMINAL)


def new_table(*headers: str, title: str | None = None) -> Table:
    """Return an empty table without borders."""
    return Table(*headers, header_style="bold", box=None, pad_edge=False, title=title, title_justify="left")


def print_legend(console: Console, legend: str) -> None:
    """Print the explanation of a table, wrapped to the width of the console."""
    text = fill(" ".join(legend.split()), min(console.width, WIDTH_OF_LEGEND))
    console.print(f"\n{text}\n", style="dim")


def print_notes(console: Console, notes: Sequence[str]) -> None:
    """Print notes below a table, if there are any."""
    if notes:
        console.print("", *notes, sep="\n", markup=False)


def print_list(console: Console, headline: str, items: Iterable[str]) -> None:
    """Print a headline and the distinct items below it. Print nothing if there are no items."""
    if distinct_items := dict.fromkeys(items):
        console.print("\n".join([f"\n{headline}", *(f"- {item}" for item in distinct_items)]), markup=False)


def print_to_text(show: Callable[[Console], None]) -> str:
    """Return everything that `show` prints."""
    text = StringIO()
    show(Console(file=text, width=WIDTH_OF_TEXT, highlight=False))
    return text.getvalue()
