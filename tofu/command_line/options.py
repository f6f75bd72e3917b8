"""The options that say which model is planned and how, shared by all commands that plan one, and what they make: a `Request`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from tofu.command_line.arguments import read_bandwidths, read_hints, read_shapes
from tofu.errors import PlanError
from tofu.mxnet.partition import plan_task, read_trained
from tofu.mxnet.runtime.arguments import read_settings
from tofu.mxnet.runtime.files import read_symbol
from tofu.pipeline import Observer, Partition, Task, observe_by_environment
from tofu.planning.progress import search_progress
from tofu.planning.settings import DEFAULTS, OPTIONS, Option, Settings
from tofu.reading import MOST_WORKERS

DEFAULT_WORKERS = 8
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _spell(name: str) -> str:
    return "--" + name.replace("_", "-")


def _make_option(name: str, option: Option) -> Decorator:
    """An option of `tofu.partition` as one of the command line."""
    return click.option(
        _spell(name),
        type=click.Choice(option.choices) if option.choices else None,
        default=DEFAULTS[name],
        show_default=DEFAULTS[name] is not None,
        metavar=option.metavar,
        help=option.help,
    )


SHARED: tuple[Decorator, ...] = (
    click.argument("model", type=FILE),
    click.option(
        "--shape", "shapes", multiple=True, required=True, metavar="NAME:D0,D1,...", help="Shape of an input."
    ),
    click.option(
        "--workers",
        type=click.IntRange(1),
        help=f"Number of devices; that of --plan where it is given, or {DEFAULT_WORKERS}.",
    ),
    click.option(
        "--hint",
        "hints",
        multiple=True,
        metavar="NAME=CHOICE",
        help="Pin a part of the plan: a tensor's dimension or an operator's axis, or one for each step, separated by "
        "commas; '-' is replicated, '...' is free.",
    ),
    click.option("--plan", type=FILE, help="Take the plan in this file, as tofu plan --json writes it."),
    *(_make_option(name, option) for name, option in OPTIONS.items() if option.help),
)
# Options of `tofu.partition` -> those of the command line.
SPELLED = {
    "ngpus": "--workers",
    "hints": "--hint",
    "plan": "--plan",
    **{name: _spell(name) for name, option in OPTIONS.items() if option.help},
}
# How texts of the command line become what `tofu.partition` is given, where that is something else.
READERS: dict[str, Callable[[Any], Any]] = {
    "hints": lambda texts: read_hints(texts) or None,
    "topology": read_bandwidths,
}


@dataclass(frozen=True)
class Request:
    """A model in a file, and how its user wants it planned."""

    name: str
    symbol: Any
    shapes: Mapping[str, tuple[int, ...]]
    settings: Settings

    def read(self, observe: Observer | None = None) -> Task:
        """The model as it is trained, before anything is decided: every argument but the inputs is learned."""
        return read_trained(self.symbol, self.shapes, self.settings, observe)

    def compile(self, observe: Observer | None = None) -> Partition:
        """Its partition; `observe` is told of every pass. Raises PlanError for one worker."""
        if self.settings.workers == 1:
            raise PlanError(f"--workers is 1; plans are made for 2 to {MOST_WORKERS} workers.")
        with search_progress(self.settings.workers) as progress:
            observe = observe or observe_by_environment()
            return plan_task(self.read(observe), progress, observe)

    def over(self, workers: int) -> Request:
        """The same for another number of workers that split all they can, without what is of one number alone: a plan, levels, hints
        for single steps.
        """
        hints = {name: hint for name, hint in (self.settings.hints or {}).items() if not isinstance(hint, tuple)}
        settings = replace(self.settings, workers=workers, hints=hints, plan=None, topology=None, memory_limit=None)
        return replace(self, settings=settings)


def takes_request(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the shared options; it is called with the `Request` that they make, and with its own options."""

    @wraps(command)
    def call(model: Path, shapes: Sequence[str], workers: int | None, **given: Any) -> None:
        symbol = read_symbol(str(model))
        asked = {name: given.pop(name) for name in OPTIONS if name in given}
        read = {name: READERS[name](value) if name in READERS else value for name, value in asked.items()}
        if workers is None and read["plan"] is None:
            workers = DEFAULT_WORKERS
        settings = read_settings(workers, **read)
        whole = getattr(symbol, "whole", symbol)
        command(Request(model.name, whole, read_shapes(shapes), settings), **given)

    made: Callable[..., None] = call
    for option in reversed(SHARED):
        made = option(made)
    return made


BARE = [name for name in SPELLED if "_" in name]  # no words of English: they are spelled without a value, too
ARGUMENT = re.compile(
    rf"\b({'|'.join(SPELLED)})=(?:['\"]([^'\"]+)['\"]|\[([^\]]+)\]|([\w.]+))?"  # with a value, or without
    rf"|\b(ngpus|{'|'.join(BARE)}|plan(?= says))\b"
)


def spell_as_options(message: str) -> str:
    """An error message of the library, whose remedies are arguments of Python, for the command line.

    >>> spell_as_options("describe it, or undescribed='replicate'; leave plan= out")
    'describe it, or --undescribed replicate; leave --plan out'
    """

    def spell(match: re.Match[str]) -> str:
        value = match[2] or (match[3] or "").replace(", ", ",") or match[4]
        return " ".join(filter(None, (SPELLED[match[1] or match[5]], value)))

    return ARGUMENT.sub(spell, message)
