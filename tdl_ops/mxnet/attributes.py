"""Parse and format MXNet's attribute strings, such as {'kernel': '(3, 3)', 'num_filter': '8', 'no_bias': 'True'}."""

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any as Anything

CHANNELS_LAST = ("NWC", "NHWC", "NDHWC")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_NAMED_VALUES = {"true": True, "false": False} | {name: float(name) for name in ("inf", "-inf", "nan", "-nan")}


def parse_attribute(text: object, default: object = None) -> Anything:
    """Convert an attribute's text to the type of `default`. If `default` is None, guess the type.

    Tuples may be written (3, 3), [3, 3] or 3. Booleans may be written True, true or 1. Raise ValueError for other
    texts.

    >>> parse_attribute("(3, 3)"), parse_attribute("1", True), parse_attribute("2", ())
    ((3, 3), True, (2,))
    """
    if not isinstance(text, str):
        return tuple(text) if isinstance(text, list) else text
    stripped = text.strip()
    if stripped == "None":
        return None
    for kind, read in _READERS:
        if isinstance(default, kind):
            return read(stripped)
    return _guess(stripped)


def format_attribute(value: object) -> str:
    """Return an attribute's value as MXNet writes it.

    >>> format_attribute((3, 3)), format_attribute(True), format_attribute(8)
    ('(3, 3)', 'True', '8')
    """
    return str(tuple(value)) if isinstance(value, (list, tuple)) else str(value)


def _guess(text: str) -> Anything:
    try:
        value = ast.literal_eval(_without_long_suffix(text))
    except (ValueError, SyntaxError):
        return _NAMED_VALUES.get(text, text)
    return tuple(value) if isinstance(value, list) else value


def _read_boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise ValueError(f"{text!r} is no boolean; it is True, False, 1 or 0") from None


def _read_tuple(text: str) -> tuple[Anything, ...]:
    value = _guess(text)
    if isinstance(value, str):
        raise ValueError(f"{text!r} is no tuple such as (1, 1)")
    return value if isinstance(value, tuple) else (value,)


def _read_integer(text: str) -> int:
    return int(_without_long_suffix(text))


def _without_long_suffix(text: str) -> str:
    return re.sub(r"(?<=\d)L\b", "", text)


_READERS: tuple[tuple[type, Callable[[str], Anything]], ...] = (
    (bool, _read_boolean),
    (int, _read_integer),
    (float, float),
    (tuple, _read_tuple),
    (str, str),
)


def is_true(attributes: Mapping[str, object], name: str, default: bool = False) -> bool:
    """Return a boolean attribute. MXNet may write it as True, true or 1."""
    return str(attributes.get(name, default)).lower() in ("true", "1")
