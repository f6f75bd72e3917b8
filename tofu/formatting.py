"""Format numbers with units, source lines, and tables for people to read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod

MOST_NAMES = 4  # in a list of names


def shorten_line(line: str) -> str:
    """Drop the working directory from a source line such as `/home/me/train.py:7`."""
    return line.removeprefix(os.path.join(os.getcwd(), ""))


def list_some(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Join the first `most` names, and count the remaining names: "a, b and 3 more"."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def format_count(count: int, noun: str) -> str:
    """Return a count with a noun: "8 workers", "1 worker"."""
    return f"{count} {noun}{'s' if count != 1 else ''}"


def format_workers(factors: Sequence[int]) -> str:
    """Return a number of workers and its factors: "6 workers (3 x 2)"."""
    rounds = f" ({' x '.join(map(str, factors))})" if factors else ""
    return f"{format_count(prod(factors), 'worker')}{rounds}"


def format_bytes(count: float, digits: int = 1) -> str:
    """Return a number of bytes with a unit: "1023 B", "1.5 KiB", "2.3 GiB"."""
    if count < 0:
        return f"-{format_bytes(-count, digits)}"
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.{digits}f} {unit}"
    return f"{count / 1024:.{digits}f} TiB"


def format_seconds(seconds: float) -> str:
    """Return a time with a unit: "12 us", "3.4 ms", "1.25 s", "7.5 hours"."""
    if seconds >= 3600:
        return f"{seconds / 3600:.3g} hours"
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def format_rate(per_second: float) -> str:
    """Return a rate, rounded to three digits: "0.123", "45.6", "12,300"."""
    return f"{float(f'{per_second:.3g}'):,.12g}"


def align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the rows of a table as lines, with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
