"""Define the planning options of all commands: the arguments of `tofu.partition`, written as `--option`."""

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
        help=f"Number of workers. Each worker is one device. Default: as many as --plan has, or {DEFAULT_WORKERS}.",
    ),
    click.option(
        "--hint",
        "hints",
        multiple=True,
        metavar="NAME=CHOICE",
        help="Choose how NAME is split: along a dimension of a tensor, or along an axis of an operator or layer. A plan splits in "
        "rounds, one for each factor of the number of workers; commas separate choices for the rounds. '-' replicates, and "
        "'...' leaves a round to the search. May be repeated.",
    ),
    click.option("--plan", type=FILE, help="Apply the plan in this file, which `python -m tofu plan --save` wrote."),
    *(_make_option(name, option) for name, option in OPTIONS.items() if option.help),
)
# Arguments of `tofu.partition` -> options of the command line.
SPELLED = {
    "ngpus": "--workers",
    "workers": "--workers",
    "hints": "--hint",
    "plan": "--plan",
    "donate_argnums": "--donate",
    "unroll": "--unroll",
    **{name: _spell(name) for name, option in OPTIONS.items() if option.help},
}
# Functions that convert a text of the command line to an argument of `tofu.partition`.
READERS: dict[str, Callable[[Any], Any]] = {
    "hints": lambda texts: read_hints(texts) or None,
    "topology": read_bandwidths,
}


def takes(options: tuple[Decorator, ...]) -> Decorator:
    """Return a decorator that adds `options` to a command, in this order."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        return reduce(lambda decorated, option: option(decorated), reversed(options), command)

    return decorate


def pop_planning(command_options: dict[str, Any]) -> tuple[int | None, dict[str, Any]]:
    """Remove the planning options from `command_options`. Return (workers, other planning options).

    `workers` is None if `--plan` determines the number.
    """
    workers = command_options.pop("workers")
    texts = {name: command_options.pop(name) for name in OPTIONS if name in command_options}
    options = {name: READERS[name](text) if name in READERS else text for name, text in texts.items()}
    workers = DEFAULT_WORKERS if workers is None and options["plan"] is None else workers
    return workers, options


def check_folder(option: str, path: Path | None) -> None:
    """Raise TofuError if the folder of an output file does not exist."""
    if path is not None and not path.absolute().parent.is_dir():
        raise TofuError(f"{option} {path}: there is no folder {path.absolute().parent}. Make it first.")


def check_plot(path: Path | None) -> None:
    """Raise TofuError if a picture cannot be saved to `path`."""
    check_folder("--plot", path)
    if path is not None:
        check_picture(path)


_NAMES_WITH_UNDERSCORES = [
    name for name in SPELLED if "_" in name
]  # these are not English words, so messages use them only for the argument
_ARGUMENT = re.compile(
    rf"\b({'|'.join(SPELLED)})=(?:['\"]([^'\"]+)['\"]|\[([^\]]+)\]|([\w.]*\w))?"  # with a value, or without
    rf"|\b(ngpus|{'|'.join(_NAMES_WITH_UNDERSCORES)}|plan(?= says))\b"
)


def spell_as_options(message: str) -> str:
    """Replace Python arguments in an error message by command line options.

    >>> spell_as_options("describe it, or undescribed='replicate'; leave plan= out")
    'describe it, or --undescribed replicate; leave --plan out'
    """

    def spell(match: re.Match[str]) -> str:
        value = match[2] or (match[3] or "").replace(", ", ",") or match[4]
        return " ".join(filter(None, (SPELLED[match[1] or match[5]], value)))

    return _ARGUMENT.sub(spell, message)
