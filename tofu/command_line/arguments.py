"""Read the texts of command line options. Errors show the expected form."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Collection, Sequence
from typing import Any

from tofu.errors import TofuError

MOST_DIGITS = 9  # a longer number is read as the name of an axis


def read_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each input, by name. Texts look like `data:64,3,224,224`. Raise TofuError for others."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, extents = text.rpartition(":")
        error_message = f"--shape {text!r} is not NAME:D0,D1,... with positive integers, for example data:64,3,224,224."
        if not name:
            raise TofuError(error_message)
        _refuse_twice("--shape", name, shapes)
        shapes[name] = read_extents(extents, error_message)
    return shapes


def read_bandwidths(text: str | None) -> list[float] | str | None:
    """Return the numbers in a text such as `10e9,50e9`, or another text unchanged."""
    try:
        return None if text is None else [float(bandwidth) for bandwidth in text.split(",")]
    except ValueError:
        return text


def read_hints(texts: Sequence[str]) -> dict[str, Any]:
    """Return the hints, by name. Texts look like `fc1_weight=0` or `conv2=b,co`. Raise TofuError for others."""
    hints: dict[str, Any] = {}
    for text in texts:
        name, equals, choice = text.partition("=")
        if not name or not equals or not choice:
            raise TofuError(f"--hint {text!r} is not NAME=CHOICE, for example fc1_weight=0 or conv2=co.")
        _refuse_twice("--hint", name, hints)
        rounds = tuple(_read_choice(text.strip()) for text in choice.split(","))
        hints[name] = rounds if len(rounds) > 1 else rounds[0]
    return hints


def _refuse_twice(option: str, name: str, earlier_names: Collection[str]) -> None:
    if name in earlier_names:
        raise TofuError(f"{option} occurs twice for {name}. Leave one of them out.")


def _read_choice(text: str) -> Any:
    special = {"-": None, "...": Ellipsis}
    is_dimension = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
    return special[text] if text in special else int(text) if is_dimension else text


def read_optimizer(text: str) -> tuple[str | None, dict[str, Any]]:
    """Return an optimizer's name and arguments. Texts look like `sgd,momentum=0.9`. Raise TofuError for others.

    `none` gives (None, {}).
    """
    name, *arguments = text.split(",")
    parameters: dict[str, Any] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        try:
            parameters[key.strip()] = literal_eval(value.strip())
        except (ValueError, SyntaxError):
            equals = ""
        if not equals:
            raise TofuError(f"--optimizer {text!r} is not NAME,PARAMETER=VALUE,..., for example sgd,momentum=0.9.")
    return (None if name == "none" else name), parameters


def read_attribute(text: str) -> tuple[str, str]:
    """Return the name and the value of an attribute. Texts look like `num_filter=8`. Raise TofuError for others."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise TofuError(f"--attribute {text!r} is not NAME=VALUE, for example num_filter=8.")
    return name, value


def read_extents(text: str, error_message: str) -> tuple[int, ...]:
    """Return the extents in a text such as `64,3`.

    Raise TofuError with `error_message` for anything but positive integers.
    """
    try:
        extents = tuple(int(extent) for extent in text.strip("()").rstrip(",").split(","))
    except ValueError as error:
        raise TofuError(error_message) from error
    if min(extents) < 1:
        raise TofuError(error_message)
    return extents
