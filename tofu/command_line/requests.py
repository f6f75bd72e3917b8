"""Read the model and the planning options of a command. The name of the model's file determines the engine."""

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
from tofu.planning.progress import show_progress
from tofu.planning.settings import Settings
from tofu.report.memory import MemoryComparison
from tofu.search.native import UNEVEN
from tofu.simulation.advise import Advice
from tofu.simulation.machine import Machine

OF_ONE_ENGINE = {
    MXNET: ("shapes", "unroll", "inference", "optimizer", "memory_plot", "states_per_weight", "path", "grad_req"),
    JAX: ("arguments", "uneven", "donated", "lines", "batch"),
}
"""Engine -> the options that apply only to its models."""

MODEL: Decorator = click.argument("model", metavar="MODEL")
SHAPE: Decorator = click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME:D0,D1,...",
    help="MXNet: shape of an input of the symbol. May be repeated.",
)
UNROLL: Decorator = click.option(
    "--unroll",
    type=click.Choice(("never", "cheaper", "always")),
    default="never",
    show_default=True,
    help="MXNet: when to run an RNN operator as separate cells, which can be split by hidden units. "
    '"cheaper" does so if it moves fewer bytes.',
)
ARGS: Decorator = click.option(
    "--args",
    "arguments",
    default="example_args",
    show_default=True,
    metavar="NAME",
    help="JAX: name in FILE.py of the step's example arguments: a tuple, or a function that returns them.",
)
STORING: tuple[Decorator, ...] = (
    click.option(
        "--uneven",
        type=click.Choice(UNEVEN),
        default="needed",
        show_default=True,
        help="JAX: arguments that may be stored in overlapping shards if they cannot be split equally: none, only those that would "
        'otherwise be replicated ("needed"), or all ("free").',
    ),
    click.option(
        "--donate",
        "donated",
        multiple=True,
        type=click.IntRange(0),
        metavar="N",
        help="JAX: let the step reuse the memory of argument N, like donate_argnums= of tofu.jax.partition. May be repeated.",
    ),
)


class ModelRequest(Protocol):
    """A model from a file, and the options for its plan. There is one class for MXNet and one for JAX (`commands.py`)."""

    @property
    def name(self) -> str:
        """The name of the model, such as "resnet-symbol.json" or "train.py:step"."""

    @property
    def settings(self) -> Settings:
        """The planning options."""

    @property
    def states(self) -> int:
        """The number of arrays that an optimizer stores for each weight. `--states` overrides this number."""

    def read(self) -> Task:
        """Read and analyse the model, but do not plan it."""

    def compile(self, observe: Observer | None = None) -> Partition:
        """Plan the model. `observe` is called after each pass (stage) of the planner."""

    def over(self, workers: int) -> ModelRequest:
        """Return the same request for `workers` workers."""

    def advise(self, machine: Machine, counts: Sequence[int], states: int, report: Callable[[str], None]) -> Advice:
        """Simulate plans on `machine` for each number of workers in `counts`, and recommend a plan.

        The optimizer stores `states` arrays for each weight. `report` is called with the name of each plan before the
        search.
        """

    def verify(self, dtype: str | None, seed: int, **own: Any) -> Agreement:
        """Run the model on one device and on all workers, and compare the results.

        `own` has options that only MXNet models, or only JAX models, accept.
        """

    def compare(self, batch: int | None, report: Callable[[str], None]) -> Callable[[Console], None]:
        """Make Tofu's plans and hand-made plans. Return a function that prints them.

        `report` is called with the name of each plan before the search.
        """

    def report_memory(self, **options: Any) -> MemoryComparison:
        """Return the memory of a step on one device and on every worker."""


def takes_model(
    *, only: Registration | None = None, instead: str = "", stores: bool = True, **context: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the argument MODEL and the planning options to a command.

    The command receives them as a `ModelRequest`. If `only` is an engine (MXNet or JAX), the command refuses other
    models. The error then ends with the text `instead`. `stores=False` leaves out `--uneven` and `--donate`. `context`
    is passed to the engine's function `read_request`.
    """
    options: tuple[Decorator, ...] = (MODEL, *PLANNING) if only == JAX else (MODEL, SHAPE, *PLANNING, UNROLL)
    if only != MXNET:
        options += (ARGS, *(STORING if stores else ()))

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def call(model: str, **command_options: Any) -> None:
            engine = find_engine_of_file(model)
            if only is not None and only != engine:
                name = click.get_current_context().info_name
                raise TofuError(f"{name} is for {only.model}, and {model} is {engine.model}. {instead}")
            _refuse_options_of_other_engines(model, engine)
            workers, planning = pop_planning(command_options)
            model_options: dict[str, Any] = {"shapes": read_shapes(command_options.pop("shapes", ()))}
            for name in ("unroll", "arguments", "uneven", "donated"):
                if name in command_options:
                    model_options[name] = command_options.pop(name)
            read = engine.load("commands").read_request
            with show_progress():
                read(
                    model,
                    workers,
                    planning,
                    lambda request: command(request, **command_options),
                    **model_options,
                    **context,
                )

        return takes(options)(call)

    return decorate


def _refuse_options_of_other_engines(model: str, engine: Registration) -> None:
    context = click.get_current_context()
    option_by_parameter = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for allowed, names in OF_ONE_ENGINE.items():
        foreign_options = [
            option_by_parameter[name]
            for name in names
            if name in option_by_parameter and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        ]
        if foreign_options and allowed != engine:
            raise TofuError(
                f"{', '.join(foreign_options)}: for {allowed.model} only, and {model} is {engine.model}. Leave it out."
            )
