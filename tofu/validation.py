"""Validation of values that come from files and from users.

The functions raise ValueError for an invalid value, and OSError for a file that cannot be read. The argument `what`
names the value in the message. Callers turn these errors into a TofuError that also explains what to do.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Collection, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from tofu.errors import suggest

T = TypeVar("T")

LONGEST_FILE = 2**30  # bytes; the plan of a million operators takes a tenth
LARGEST_COUNT = 2**62  # bytes; sums of several still fit into 64 bits
MOST_WORKERS = 65536  # of a plan
MOST_DIMENSIONS = 32  # of a tensor
LONGEST_VALUE = 60  # in a message
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # in the repr of a function
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_text(path: str | Path) -> str:
    """Return the text of a file. Raise OSError or ValueError if the file is too long, not text, or not a regular file."""
    with open(path, "rb", opener=_open_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is not a regular file")
        if status.st_size > LONGEST_FILE:
            raise ValueError(f"{path} has {status.st_size:,} bytes; the limit is {LONGEST_FILE:,}")
        try:
            return file.read(LONGEST_FILE).decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not text: byte {error.start} is not UTF-8") from error


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def parse_json(text: str) -> Any:
    """Parse a JSON text. Raise ValueError for invalid JSON and for repeated keys."""
    try:
        text.encode()
        value = json.loads(text, object_pairs_hook=_make_unique, parse_constant=_refuse_constant)
        if SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except UnicodeEncodeError as error:
        raise ValueError("it has a lone surrogate, half of a character") from error
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _make_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value_by_name = dict(pairs)
    if len(value_by_name) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in value_by_name if names.count(name) > 1)!r} occurs twice")
    return value_by_name


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def is_integer(value: Any) -> bool:
    """Return True if a JSON value is an integer. The value `true` is not an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def read_integer(value: Any, what: str, least: int = 0, most: int = LARGEST_COUNT) -> int:
    """Return `value`. Raise ValueError unless it is an integer from `least` to `most`."""
    if not is_integer(value) or not least <= value <= most:
        raise ValueError(f"{what} is {show(value)}, not an integer from {least} to {most}")
    return int(value)


def read_positive(value: Any, what: str) -> float:
    """Convert a positive, finite number to a float. Raise ValueError for other values."""
    if not _is_number(value) or value == 0:
        raise ValueError(f"{what} is {show(value)}, not a positive number")
    if not isfinite(1 / float(value)):
        raise ValueError(f"{what} is {show(value)}, too small a number")
    return float(value)


def read_not_negative(value: Any, what: str) -> float:
    """Convert 0 or a positive, finite number to a float. Raise ValueError for other values."""
    if not _is_number(value):
        raise ValueError(f"{what} is {show(value)}, not a number from 0 on")
    return float(value)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and 0 <= value < 2.0**1023


def read_boolean(value: Any, what: str) -> bool:
    """Return `value`. Raise ValueError unless it is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{what} is {show(value)}, neither true nor false")
    return value


def read_string(value: Any, what: str) -> str:
    """Return `value`. Raise ValueError unless it is a string."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is {show(value)}, not a text")
    return value


def read_list(value: Any, what: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    """Convert each item of a list by `read`, and return a tuple."""
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{what} is {show(value)}, not a list")
    return tuple(read(item, what) for item in value)


def read_mapping(value: Any, what: str, read: Callable[[Any, str], T]) -> dict[str, T]:
    """Convert each value of a JSON object by `read`, and return a dictionary."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{what} is {show(value)}, not a mapping of names")
    return {name: read(item, f"{what} of {show(name)}") for name, item in value.items()}


def read_object(value: Any, what: str, known: Collection[str]) -> Mapping[str, Any]:
    """Return `value`. Raise ValueError unless it is a JSON object whose fields are all in `known`."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is {show(value)}, not an object with fields")
    for name in value:
        if name not in known:
            raise ValueError(f"{what} has a field {show(name)}, which is unknown{suggest(str(name), known)}")
    return value


def show(value: Any) -> str:
    """Return `value` as text for a message. Long texts are cut."""
    if is_integer(value) and value.bit_length() > 4 * LONGEST_VALUE:
        return f"a number of {value.bit_length()} bits"
    try:
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            return f"an array of shape {value.shape}"
        text = ADDRESS.sub("", repr(value))
    except Exception:
        return f"a {type(value).__name__}"
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}... ({_name_type(value)})"


def show_with_type(value: Any) -> str:
    """Return `value` as text for a message, with its type in parentheses."""
    text = show(value)
    type_in_parentheses = f"({_name_type(value)})"
    return text if text.endswith(type_in_parentheses) else f"{text} {type_in_parentheses}"


def _name_type(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
