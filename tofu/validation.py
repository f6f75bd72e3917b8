"""What comes from outside, read without trust: files of a bounded size, JSON of a bounded depth, values of the type that is asked for.

All raise ValueError (or OSError for a file) with what is wrong; who asks knows which TofuError that is, and the remedy.
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

LONGEST_FILE = 2**30  # bytes of a text: the plan of a graph of a million operators has a tenth of that
LARGEST_COUNT = 2**62  # of bytes: sums and doubles of these still fit into 64 bits
MOST_WORKERS = 65536  # that can be planned for
MOST_DIMENSIONS = 32  # of a tensor
LONGEST_VALUE = 60  # in a message
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # in what Python prints of a function
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_text(path: str | Path) -> str:
    """The text of a regular file. Raises OSError or ValueError for what is none, or too long to be meant."""
    with open(path, "rb", opener=_open_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is no regular file")
        if status.st_size > LONGEST_FILE:
            raise ValueError(f"{path} has {status.st_size:,} bytes; a text of more than {LONGEST_FILE:,} is not read")
        try:
            return file.read(LONGEST_FILE).decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is no text: byte {error.start} is not UTF-8") from error


def _open_without_waiting(path: str, flags: int) -> int:
    """A pipe without a writer would block the reader for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def parse_json(text: str) -> Any:
    """A value of JSON, whose objects have each key once. Raises ValueError, which names line and column where they are known."""
    try:
        text.encode()
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
        if SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except UnicodeEncodeError as error:
        raise ValueError("it has half of a character of two (a lone surrogate)") from error
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in made if names.count(name) > 1)!r} is given twice")
    return made


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def is_integer(value: Any) -> bool:
    """Whether a value of JSON is a whole number; `true` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def read_integer(value: Any, what: str, least: int = 0, most: int = LARGEST_COUNT) -> int:
    """A whole number of [least, most]."""
    if not is_integer(value) or not least <= value <= most:
        raise ValueError(f"{what} is {show(value)}, not a whole number from {least} to {most}")
    return int(value)


def read_positive(value: Any, what: str) -> float:
    """A finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2.0**1023:
        raise ValueError(f"{what} is {show(value)}, not a positive number")
    number = float(value)
    if not isfinite(1 / number):
        raise ValueError(f"{what} is {show(value)}, too small a number")
    return number


def read_not_negative(value: Any, what: str) -> float:
    """A finite number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2.0**1023:
        raise ValueError(f"{what} is {show(value)}, not a number from 0 on")
    return float(value)


def read_boolean(value: Any, what: str) -> bool:
    """`true` or `false`."""
    if not isinstance(value, bool):
        raise ValueError(f"{what} is {show(value)}, neither true nor false")
    return value


def read_string(value: Any, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is {show(value)}, not a text")
    return value


def read_list(value: Any, what: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    """A list of what `read` reads."""
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{what} is {show(value)}, not a list")
    return tuple(read(one, what) for one in value)


def read_mapping(value: Any, what: str, read: Callable[[Any, str], T]) -> dict[str, T]:
    """An object whose values `read` reads."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{what} is {show(value)}, not a mapping of names")
    return {name: read(one, f"{what} of {show(name)}") for name, one in value.items()}


def read_object(value: Any, what: str, known: Collection[str]) -> Mapping[str, Any]:
    """An object that has known fields alone: one with a misspelt name would count for nothing, in silence."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is {show(value)}, not an object with fields")
    for name in value:
        if name not in known:
            raise ValueError(f"{what} has a field {show(name)}, which is unknown{suggest(str(name), known)}")
    return value


def show(value: Any) -> str:
    """A value in a message, which no value makes long; a whole number may be too long for Python to print."""
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
    """The same with the type of the value."""
    shown = show(value)
    kind = f"({_name_type(value)})"
    return shown if shown.endswith(kind) else f"{shown} {kind}"


def _name_type(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
