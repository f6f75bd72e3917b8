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
from tofu.mxnet.runtime.arguments import UNDESCRIBED, read_plan, read_settings
from tofu.mxnet.runtime.files import read_symbol
from tofu.pipeline import Observer, Partition, Task, observe_by_environment
from tofu.planning.find import Settings
from tofu.planning.progress import search_progress
from tofu.reading import MOST_WORKERS
from tofu.search.algorithms import ALGORITHMS, DEFAULT_ALGORITHM
from tofu.search.solve import DEFAULT_SEARCH_SECONDS

DEFAULT_WORKERS = 8
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
SHARED = (
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
    click.option("--plan", "plan_path", type=FILE, help="Take the plan in this file, as tofu plan --json writes it."),
    click.option("--algorithm", type=click.Choice(tuple(ALGORITHMS)), default=DEFAULT_ALGORITHM, show_default=True),
    click.option(
        "--search-seconds", default=DEFAULT_SEARCH_SECONDS, show_default=True, help="Effort of the exact search."
    ),
    click.option(
        "--topology",
        metavar="BANDWIDTHS",
        help="Bytes per second of each level of the interconnect, from the top, separated by commas, or a JSON file with the levels.",
    ),
    click.option(
        "--memory-limit", metavar="SIZE", help='Of each worker, in bytes or like "12GB": what fits is searched.'
    ),
    click.option(
        "--undescribed",
        type=click.Choice(UNDESCRIBED),
        default="error",
        show_default=True,
        help="What to do about operators without a description: name them, or let every worker compute them whole.",
    ),
)


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
    def call(
        model: Path,
        shapes: Sequence[str],
        workers: int | None,
        hints: Sequence[str],
        plan_path: Path | None,
        algorithm: str,
        search_seconds: float,
        topology: str | None,
        memory_limit: str | None,
        undescribed: str,
        **own: Any,
    ) -> None:
        symbol = read_symbol(str(model))
        settings = read_settings(
            DEFAULT_WORKERS if workers is None and plan_path is None else workers,
            plan=read_plan(plan_path),
            hints=read_hints(hints) or None,
            algorithm=algorithm,
            search_seconds=search_seconds,
            topology=read_bandwidths(topology),
            memory_limit=memory_limit,
            undescribed=undescribed,
        )
        whole = getattr(symbol, "whole", symbol)
        command(Request(model.name, whole, read_shapes(shapes), settings), **own)

    for option in reversed(SHARED):
        call = option(call)
    return call


OPTIONS = {
    "ngpus": "--workers",
    "hints": "--hint",
    **{
        name: "--" + name.replace("_", "-")
        for name in ("plan", "algorithm", "search_seconds", "topology", "memory_limit", "undescribed")
    },
}
ARGUMENT = re.compile(
    rf"\b({'|'.join(OPTIONS)})=(?:['\"]([^'\"]+)['\"]|\[([^\]]+)\]|([\w.]+))?"  # with a value, or without
    r"|\b(ngpus|search_seconds|memory_limit|plan(?= says))\b"
)


def spell_as_options(message: str) -> str:
    """An error message of the library, whose remedies are arguments of Python, for the command line.

    >>> spell_as_options("describe it, or undescribed='replicate'; leave plan= out")
    'describe it, or --undescribed replicate; leave --plan out'
    """

    def spell(match: re.Match[str]) -> str:
        value = match[2] or (match[3] or "").replace(", ", ",") or match[4]
        return " ".join(filter(None, (OPTIONS[match[1] or match[5]], value)))

    return ARGUMENT.sub(spell, message)
