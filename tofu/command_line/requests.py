"""What commands are asked: a model in a file, and how its user wants it planned. The model decides which engine reads it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, Protocol

import click
from click.core import ParameterSource

from tofu.command_line.planning_options import PLANNING, Decorator, make_planning, pop_planning, takes
from tofu.errors import TofuError
from tofu.pipeline import Observer, Partition
from tofu.planning.settings import Settings
from tofu.search.native import UNEVEN

SYMBOL, STEP = "an MXNet symbol", "a step for JAX"
READERS = {SYMBOL: "tofu.command_line.symbols", STEP: "tofu.command_line.steps"}
"""The module that reads each kind of model."""
OF_SYMBOLS = ("shapes", "unroll", "inference", "optimizer", "plot")
OF_STEPS = ("arguments", "uneven", "donate", "lines")
"""Options, by the names of their parameters, that are for one kind of model alone."""

MODEL: Decorator = click.argument("model", metavar="MODEL")
SHAPE: Decorator = click.option(
    "--shape", "shapes", multiple=True, metavar="NAME:D0,D1,...", help="MXNet: the shape of each input of the symbol."
)
ARGS: Decorator = click.option(
    "--args",
    "arguments",
    default="example_args",
    show_default=True,
    metavar="NAME",
    help="JAX: what returns the example arguments of the step, a function in FILE.py without parameters, or a tuple.",
)
STORING: tuple[Decorator, ...] = (
    click.option(
        "--uneven",
        type=click.Choice(UNEVEN),
        default="needed",
        show_default=True,
        help="JAX: which arguments may be stored in overlapping shards if workers cannot share them equally: none, those that each "
        "worker would hold all of otherwise, or all.",
    ),
    click.option(
        "--donate",
        multiple=True,
        type=click.IntRange(0),
        metavar="N",
        help="JAX: the step may write over its argument N, as donate_argnums= of tofu.jax.partition says; may be given several times.",
    ),
)


class Request(Protocol):
    """A model that was read from a file, and the settings for its plan."""

    @property
    def name(self) -> str:
        """The name of the file, and of the step in it."""

    @property
    def settings(self) -> Settings:
        """The options of planning."""

    def compile(self, observe: Observer | None = None) -> Partition:
        """Return the partition; `observe` is told of every pass."""

    def over(self, workers: int) -> Request:
        """Return the request for another number of workers."""

    def show_memory(self, device_bytes: int | None, **options: Any) -> None:
        """Print what a step needs on one device and on every worker, and whether it fits into a device of so many bytes."""


def find_kind(model: str) -> str:
    """Return the kind of a model on the command line: FILE.py or FILE.py:STEP is a step, any other file a symbol."""
    return STEP if model.endswith(".py") or ".py:" in model else SYMBOL


def takes_model(
    *, only: str | None = None, stores: bool = True, **context: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the argument MODEL and the options that say how to plan it. It is called with the `Request`, and with its own options.

    `only` is the kind of model that the command is for; it may be any if left out. If not `stores`, options that say how the arguments of a
    step are stored are left out. `context` is passed to what reads the model.
    """
    options: tuple[Decorator, ...] = (MODEL, SHAPE, *PLANNING)
    if only == STEP:
        options = (MODEL, *make_planning(left_out=OF_SYMBOLS))
    if only != SYMBOL:
        options += (ARGS, *(STORING if stores else ()))

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def call(model: str, **given: Any) -> None:
            kind = find_kind(model)
            if only not in (None, kind):
                name = click.get_current_context().info_name
                raise TofuError(f"{name} is for {only}, and {model} is {kind}.")
            _refuse_others(model, kind)
            workers, planning = pop_planning(given)
            own: dict[str, Any] = {
                name: given.pop(name) for name in ("shapes", "arguments", "uneven", "donate") if name in given
            }
            read = load_engine(READERS[kind]).read_request
            read(model, workers, planning, lambda request: command(request, **given), **own, **context)

        return takes(options)(call)

    return decorate


def _refuse_others(model: str, kind: str) -> None:
    """Raise TofuError for options that were given and are for another kind of model."""
    context = click.get_current_context()
    others, other = (OF_SYMBOLS, SYMBOL) if kind == STEP else (OF_STEPS, STEP)
    spelled = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    given = [
        spelled[name]
        for name in others
        if name in spelled and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise TofuError(f"{', '.join(given)}: this is for {other}, and {model} is {kind}. Leave it out.")


def load_engine(module: str) -> Any:
    """Return a module of an engine. Raises TofuError if the framework that it needs is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise TofuError(str(error)) from error
