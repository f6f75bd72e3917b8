"""Calls that do not fit a function: told in the words of its user, with an example, as every other error is."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from tofu.errors import ArgumentTypeError, suggest

P = ParamSpec("P")
R = TypeVar("R")


def called_as(example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a function raise an ArgumentTypeError that shows how it is called, where Python would raise a TypeError of its own words."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = signature(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                parameters.bind(*args, **kwargs)
            except TypeError as error:
                unknown = [name for name in kwargs if name not in parameters.parameters]
                near = suggest(unknown[0], parameters.parameters) if unknown else ""
                raise ArgumentTypeError(f"This call {_word(error)}{near}. Write {example}.") from None
            return function(*args, **kwargs)

        return call

    return decorate


def _word(error: TypeError) -> str:
    """What Python says of a call, as the end of a sentence."""
    said = str(error).replace("got an unexpected keyword argument", "has no argument")
    return (
        said.replace("missing a required argument:", "lacks") if "missing" in said else said.replace("too", "has too")
    )


def list_options(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the arguments that can only be given by name."""
    parameters = signature(function).parameters.values()
    return tuple(one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY)
