"""Memory sizes: conversion between texts such as "12GB" and bytes."""

from __future__ import annotations

import re
from typing import Any

from tofu.errors import PlanError
from tofu.validation import LARGEST_COUNT, show

UNITS = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
LONGEST_SIZE = len("123.4 GiB")
LEAST_NUMBER, LEAST_NUMBER_IN_TEXT = 1 << 10, 1 << 20
"""A smaller number of bytes without a unit probably lacks its unit. Programs compute numbers, and people write texts."""


def read_bytes(value: Any, what: str = "memory_limit") -> int:
    """Return the bytes of a number, or of a text such as "12GB" (12 * 10^9) or "12 GiB" (12 * 2^30).

    Raises PlanError for any other value, and for numbers that probably lack a unit. `what` names the value in messages.

    >>> read_bytes("1.5 KiB")
    1536
    """
    pattern = r"\s*([\d.]+(?:e\d+)?)\s*((?:[kmgt]i?)?)b?\s*"
    match = re.fullmatch(pattern, value.lower()) if isinstance(value, str) else None
    sizes = {unit.lower().removesuffix("b"): size for unit, size in UNITS.items()}
    try:
        number = float(match[1]) * sizes[match[2]] if match else float(value)
    except (TypeError, ValueError, OverflowError):
        number = 0.0
    if isinstance(value, bool) or not 1 <= number <= LARGEST_COUNT:
        raise PlanError(
            f"{what} {show(value)} is not a size: a number of bytes, for example 12e9, 12GB (12 * 10^9) or 16GiB (16 * 2^30)."
        )
    _refuse_missing_unit(value, int(number), what)
    return int(number)


def _refuse_missing_unit(value: Any, count: int, what: str) -> None:
    is_text = isinstance(value, str)
    if count < (LEAST_NUMBER_IN_TEXT if is_text else LEAST_NUMBER) and (not is_text or value.strip().isdecimal()):
        remedy = f"{what} {count}GiB" if what.startswith("-") else f"{what}='{count}GiB'"
        raise PlanError(f"{what} {value} is {count:,} bytes. Did you mean {count} GiB? Write {remedy}.")


def write_size(count: int) -> str:
    """Return a number of bytes as a text that `read_bytes` reads.

    >>> write_size(3 * 10**6), write_size(1234567)
    ('3MB', '1234567B')
    """
    text, is_exact, _ = format_limit(count).partition(" (")
    return text.replace(" ", "") if is_exact else f"{count}B"


def format_limit(count: int) -> str:
    """Return a number of bytes as text. Add a larger unit if it gives a short, exact number.

    >>> format_limit(10**9), format_limit(3 * 2**29), format_limit(1234567)
    ('1 GB (1,000,000,000 bytes)', '1.5 GiB (1,610,612,736 bytes)', '1,234,567 bytes')
    """
    exact_text = f"{count:,} bytes"
    candidates = [f"{count / size:.5g} {unit}" for unit, size in UNITS.items() if 1 < size <= count < 10**5 * size]
    exact_candidates = [text for text in candidates if len(text) <= LONGEST_SIZE and read_bytes(text) == count]
    return f"{min(exact_candidates, key=len)} ({exact_text})" if exact_candidates else exact_text
