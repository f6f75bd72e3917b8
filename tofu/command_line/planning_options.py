"""Options of planning for all engines: those of `partition`, in the spelling of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

from tofu.command_line.arguments import read_bandwidths, read_hints
from tofu.errors import TofuError
from tofu.planning.settings import DEFAULTS, OPTIONS, Option
from tofu.report.picture import check_picture

DEFAULT_WORKERS = 8
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OUTPUT = click.Path(dir_okay=False, writable=True, path_type=Path)
Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _spell(name: str) -> str:
    return "--" + name.replace("_", "-")


def _make_option(name: str, option: Option) -> Decorator:
    """Return an option of `tofu.partition` as an option of the command line."""
    return click.option(
        _spell(name),
        type=click.Choice(option.choices) if option.choices else None,
        default=DEFAULTS[name],
        show_default=DEFAULTS[name] is not None,
        metavar=option.metavar,
        help=option.help,
    )


PLANNING: tuple[Decorator, ...] = (
    click.option(
        "--workers",
        "--ngpus",
        "workers",
        type=click.IntRange(1),
        help=f"Number of workers, one for each device. Default: the number of --plan, or {DEFAULT_WORKERS}.",
    ),
    click.option(
        "--hint",
        "hints",
        multiple=True,
        metavar="NAME=CHOICE",
        help="Fix a part of the plan: a tensor's dimension, or an axis of an operator or layer; or one for each round, separated by "
        "commas. '-' is replicated, '...' is free. May be repeated.",
    ),
    click.option("--plan", type=FILE, help="Apply the plan in this file, written by --save of the command plan."),
    *(_make_option(name, option) for name, option in OPTIONS.items() if option.help),
)
"""The options of planning, for all engines."""
# Options of `tofu.partition` -> those of the command line.
SPELLED = {
    "ngpus": "--workers",
    "workers": "--workers",
    "hints": "--hint",
    "plan": "--plan",
    "donate_argnums": "--donate",
    "unroll": "--unroll",
    **{name: _spell(name) for name, option in OPTIONS.items() if option.help},
}
# Conversions of command line texts to arguments of `tofu.partition`.
READERS: dict[str, Callable[[Any], Any]] = {
    "hints": lambda texts: read_hints(texts) or None,
    "topology": read_bandwidths,
}


def takes(options: tuple[Decorator, ...]) -> Decorator:
    """Return a decorator that gives a command these options, in their order."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        return reduce(lambda decorated, option: option(decorated), reversed(options), command)

    return decorate


def pop_planning(given: dict[str, Any]) -> tuple[int | None, dict[str, Any]]:
    """Take the options of planning out of a command's arguments.

    Returns the number of workers, or None for the plan's own, and the other options as arguments of `partition`.
    """
    workers = given.pop("workers")
    asked = {name: given.pop(name) for name in OPTIONS if name in given}
    read = {name: READERS[name](value) if name in READERS else value for name, value in asked.items()}
    return (DEFAULT_WORKERS if workers is None and read["plan"] is None else workers), read


def check_folder(option: str, path: Path | None) -> None:
    """Raise TofuError if a file cannot be written, before any search."""
    if path is not None and not path.absolute().parent.is_dir():
        raise TofuError(f"{option} {path}: there is no folder {path.absolute().parent}. Make it first.")


def check_plot(path: Path | None) -> None:
    """Raise TofuError if a picture cannot be written, before any search."""
    check_folder("--plot", path)
    if path is not None:
        check_picture(path)


BARE = [name for name in SPELLED if "_" in name]  # not English words, so they are replaced without a value, too
ARGUMENT = re.compile(
    rf"\b({'|'.join(SPELLED)})=(?:['\"]([^'\"]+)['\"]|\[([^\]]+)\]|([\w.]*\w))?"  # with a value, or without
    rf"|\b(ngpus|{'|'.join(BARE)}|plan(?= says))\b"
)


def spell_as_options(message: str) -> str:
    """Return an error message of the library with Python arguments spelled as options.

    >>> spell_as_options("describe it, or undescribed='replicate'; leave plan= out")
    'describe it, or --undescribed replicate; leave --plan out'
    """

    def spell(match: re.Match[str]) -> str:
        value = match[2] or (match[3] or "").replace(", ", ",") or match[4]
        return " ".join(filter(None, (SPELLED[match[1] or match[5]], value)))

    return ARGUMENT.sub(spell, message)
