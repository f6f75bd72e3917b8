"""The options that say which symbol is planned and how, shared by all commands that plan one, and what they make: a `Request`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from tofu.command_line.arguments import read_shapes
from tofu.command_line.planning_options import FILE, PLANNING, Decorator, pop_planning, takes
from tofu.errors import PlanError
from tofu.mxnet.planning import plan_task, read_trained
from tofu.mxnet.runtime.arguments import read_settings
from tofu.mxnet.runtime.files import read_symbol, shapes_as_saved
from tofu.pipeline import Observer, Partition, Task, observe_by_environment
from tofu.planning.progress import search_progress
from tofu.planning.settings import Settings
from tofu.reading import MOST_WORKERS

SHARED: tuple[Decorator, ...] = (
    click.argument("model", type=FILE),
    click.option(
        "--shape", "shapes", multiple=True, required=True, metavar="NAME:D0,D1,...", help="Shape of an input."
    ),
    *PLANNING,
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
        """The same for another number of workers."""
        return replace(self, settings=self.settings.over(workers))


def takes_request(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the shared options; it is called with the `Request` that they make, and with its own options."""

    @wraps(command)
    def call(model: Path, shapes: Sequence[str], **given: Any) -> None:
        symbol = read_symbol(str(model))
        workers, options = pop_planning(given)
        settings = read_settings(workers, **options)
        whole = getattr(symbol, "whole", symbol)
        with shapes_as_saved(str(model)):
            command(Request(model.name, whole, read_shapes(shapes), settings), **given)

    return takes(SHARED)(call)
