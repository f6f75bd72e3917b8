"""What commands are asked: a model in a file, and how its user wants it planned. The model decides which engine reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Protocol

import click
from click.core import ParameterSource
from rich.console import Console

from tofu.command_line.arguments import read_shapes
from tofu.command_line.planning_options import PLANNING, Decorator, pop_planning, takes
from tofu.compare.agreement import Agreement
from tofu.engines import JAX, MXNET, Registration, find_engine_of_file
from tofu.errors import TofuError
from tofu.pipeline import Observer, Partition, Task
from tofu.planning.settings import Settings
from tofu.report.memory import Report
from tofu.search.native import UNEVEN
from tofu.simulation.advise import Advice
from tofu.simulation.machine import Machine

OF_ONE_ENGINE = {
    MXNET: ("shapes", "unroll", "inference", "optimizer", "memory_plot", "states", "path", "grad_req"),
    JAX: ("arguments", "uneven", "donated", "lines", "batch"),
}
"""Options, by the names of their parameters, that are for the models of one engine alone."""

MODEL: Decorator = click.argument("model", metavar="MODEL")
SHAPE: Decorator = click.option(
    "--shape", "shapes", multiple=True, metavar="NAME:D0,D1,...", help="MXNet: the shape of each input of the symbol."
)
UNROLL: Decorator = click.option(
    "--unroll",
    type=click.Choice(("never", "cheaper", "always")),
    default="never",
    show_default=True,
    help="MXNet: when an RNN operator runs as its cells, which are split by hidden units too: where that moves fewer bytes, say.",
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
        "donated",
        multiple=True,
        type=click.IntRange(0),
        metavar="N",
        help="JAX: the step may write over its argument N, as donate_argnums= of tofu.jax.partition says; may be given several times.",
    ),
)


class ModelRequest(Protocol):
    """A model that was read from a file, and the settings for its plan. Each engine's `commands.py` has one."""

    @property
    def name(self) -> str:
        """The name of the file, and of the step in it."""

    @property
    def settings(self) -> Settings:
        """The options of planning."""

    @property
    def states(self) -> int:
        """Tensors that an optimizer keeps for each weight, unless the user says otherwise."""

    def read(self) -> Task:
        """Return the model before anything is decided."""

    def compile(self, observe: Observer | None = None) -> Partition:
        """Return the partition; `observe` is told of every pass."""

    def over(self, workers: int) -> ModelRequest:
        """Return the request for another number of workers."""

    def advise(self, machine: Machine, counts: Sequence[int], states: int, report: Callable[[str], None]) -> Advice:
        """Return the ways to train on a machine, simulated. `report` is told of each before it is planned."""

    def verify(self, dtype: str | None, seed: int, **own: Any) -> Agreement:
        """Run the model on one device and on all, and compare. `own` are options of the engine's."""

    def compare(self, batch: int | None, report: Callable[[str], None]) -> Callable[[Console], None]:
        """Return what prints plans beside those that people write by hand. `report` is told of each before it is made."""

    def report_memory(self, **options: Any) -> Report:
        """Return what a step needs on one device and on every worker. `options` are the engine's."""


def takes_model(
    *, only: Registration | None = None, stores: bool = True, **context: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Pass a command the argument MODEL and the options of planning, as a `ModelRequest`, and its own options.

    `only` is the engine that the command is for; it may be any if left out. If not `stores`, options that say how the arguments of a
    step are stored are left out. `context` is passed to what reads the model.
    """
    options: tuple[Decorator, ...] = (MODEL, *PLANNING) if only == JAX else (MODEL, SHAPE, *PLANNING, UNROLL)
    if only != MXNET:
        options += (ARGS, *(STORING if stores else ()))

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def call(model: str, **given: Any) -> None:
            engine = find_engine_of_file(model)
            if only is not None and only != engine:
                name = click.get_current_context().info_name
                raise TofuError(f"{name} is for {only.model}, and {model} is {engine.model}.")
            _refuse_others(model, engine)
            workers, planning = pop_planning(given)
            own: dict[str, Any] = {"shapes": read_shapes(given.pop("shapes", ()))}
            own |= {name: given.pop(name) for name in ("unroll", "arguments", "uneven", "donated") if name in given}
            read = engine.load("commands").read_request
            read(model, workers, planning, lambda request: command(request, **given), **own, **context)

        return takes(options)(call)

    return decorate


def _refuse_others(model: str, engine: Registration) -> None:
    """Raise TofuError for options that were given and are for models of another engine."""
    context = click.get_current_context()
    spelled = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for other, names in OF_ONE_ENGINE.items():
        given = [
            spelled[name]
            for name in names
            if name in spelled and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        ]
        if given and other != engine:
            raise TofuError(
                f"{', '.join(given)}: this is for {other.model}, and {model} is {engine.model}. Leave it out."
            )
