"""What the user asks of a plan: the table of options, which `tofu.partition`, the command line and the files of symbols read.

An option is a field of `Settings`, with its default, and a line of `OPTIONS`: how a value that is given is read, and how files and the
command line write it. Who adds one writes both here, and an argument of `tofu.partition` (and of `tofu.frontier`, if it takes it); a test
holds them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tofu.errors import PlanError, UnsupportedError, raise_together
from tofu.plan import Plan
from tofu.search.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, find_algorithm
from tofu.search.solve import DEFAULT_SEARCH_SECONDS, read_seconds
from tofu.search.topology import Arrangement, Topology, arrange_as, read_topology
from tofu.sizes import read_bytes
from tofu.validation import read_string, read_text, show, show_with_type

REPLICATE = ("small", "free")
UNDESCRIBED = ("error", "replicate")
ON_INFEASIBLE = ("error", "replicate")
PLAN_FORMS = "a tofu.Plan, the text that its to_json() gives, or the path of a file with that text"


@dataclass(frozen=True)
class Option:
    """How the value of an option comes in and goes out.

    Attributes
    ----------
    read
        What the user gives -> the setting. Raises TofuError. None stays None where that is the default.
    to_plain, from_plain
        The setting -> what a JSON file has of it, and back to what a user would give; None stays None.
    is_of_search
        Whether it says how to search, so that a plan from outside leaves no room for it.
    help, metavar, choices
        Of the option of the command line, which has the same name with hyphens. Without `help` there is none, or one of its own.
    """

    read: Callable[[Any], Any]
    to_plain: Callable[[Any], Any] = lambda setting: setting
    from_plain: Callable[[Any], Any] = lambda plain: plain
    is_of_search: bool = False
    help: str = ""
    metavar: str | None = None
    choices: Sequence[str] = ()


def read_hints(hints: Any) -> Mapping[str, Any]:
    """A mapping of names. What it says of them is looked at when there is a graph. Raises PlanError for anything else."""
    if not isinstance(hints, Mapping):
        raise PlanError(
            f"hints= maps names to dimensions or axes, for example hints={{'fc1_weight': 0}}; it was given {show_with_type(hints)}."
        )
    unnamed = [show(name) for name in hints if not isinstance(name, str)]
    raise_together(
        PlanError, "hints= maps the names of tensors and operators, which are texts. These are none:", unnamed
    )
    return hints


def read_plan(plan: Any) -> Plan:
    """A plan, given as one, as its JSON, or as the path of a file with its JSON."""
    if isinstance(plan, Plan):
        return plan
    if isinstance(plan, str) and plan.lstrip().startswith("{"):
        return Plan.from_json(plan)
    if not isinstance(plan, (str, Path)):
        raise PlanError(f"plan= takes {PLAN_FORMS}; it was given {show_with_type(plan)}.")
    try:
        text = read_text(plan)
    except (OSError, ValueError) as error:
        raise PlanError(f"plan= takes {PLAN_FORMS}, and no such file can be read: {error}.") from error
    try:
        return Plan.from_json(text)
    except PlanError as error:
        raise PlanError(f"{plan}: {error}") from error


def _read_undescribed(treatment: Any) -> str:
    if treatment not in UNDESCRIBED:
        raise UnsupportedError(f"undescribed= is one of {', '.join(map(repr, UNDESCRIBED))}, not {show(treatment)}.")
    return str(treatment)


def _read_on_infeasible(treatment: Any) -> str:
    if treatment not in ON_INFEASIBLE:
        raise UnsupportedError(
            f"on_infeasible= is one of {', '.join(map(repr, ON_INFEASIBLE))}, not {show(treatment)}."
        )
    return str(treatment)


def _read_replicate(what: Any) -> str:
    if what not in REPLICATE:
        raise PlanError(f"replicate= is one of {', '.join(map(repr, REPLICATE))}, not {show(what)}.")
    return str(what)


def _read_switch(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise_together(PlanError, "These are either True or False:", [f"{name}={show(value)}"])
    return bool(value)


def _plain_hints(hints: Mapping[str, Any]) -> dict[str, Any]:
    """Free steps as text."""
    return {
        name: ["..." if step is Ellipsis else step for step in hint] if isinstance(hint, (list, tuple)) else hint
        for name, hint in hints.items()
    }


def _rich_hints(plain: Any) -> Any:
    """The inverse; what is no mapping stays, and is refused when it is read."""
    if not isinstance(plain, dict):
        return plain
    return {
        name: [Ellipsis if step == "..." else step for step in hint] if isinstance(hint, list) else hint
        for name, hint in plain.items()
    }


def _read_plain_plan(plain: Any) -> Plan:
    return Plan.from_json(read_string(plain, "a plan"))


@dataclass(frozen=True)
class Settings:
    """What the user asks of a partition, beside the model itself.

    Attributes
    ----------
    workers
        The number of devices, at least 2.
    hints
        Name -> dimension or axis that the plan must take.
    plan
        A plan to apply instead of a search.
    for_training
        Whether gradients are wanted at all.
    undescribed
        "error", or "replicate": whether operators without a description are computed whole by every worker.
    on_infeasible
        "error", or "replicate": whether workers compute the same where there is nothing to split between them. "accept" is "replicate"
        without a warning, for plans that no user asked for.
    cache
        Whether plans are remembered by fingerprint.
    algorithm, search_seconds
        One of `tofu.search.algorithms.ALGORITHMS`, and the effort of the exact search (`tofu.partition`).
    topology
        The levels of the interconnect; plans are searched by seconds then, else by bytes.
    memory_limit
        Bytes for each worker. Tensors may stay replicated as far as they fit then.
    replicate
        What a search without a memory limit may replicate: "small" tensors, below 64 KiB, or anything ("free").
    strict_plan
        Whether the plan given must be of this very graph; else it is applied where it is feasible.
    arrangement
        The steps that the plan has to have, where it shares the workers with another plan.
    saved
        The plan that was saved with these settings: it takes the place of a search for the graph that it is of, as if remembered.
    """

    workers: int
    hints: Mapping[str, Any] | None = None
    plan: Plan | None = None
    for_training: bool = True
    undescribed: str = "error"
    on_infeasible: str = "error"
    cache: bool = True
    algorithm: str = DEFAULT_ALGORITHM
    search_seconds: float = DEFAULT_SEARCH_SECONDS
    topology: Topology | None = None
    memory_limit: int | None = None
    replicate: str = "small"
    strict_plan: bool = True
    arrangement: Arrangement | None = None
    saved: Plan | None = None

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """The steps to search: those of the plan given, of the interconnect's levels, or of the algorithm."""
        if self.plan is not None:
            return (arrange_as(self.plan),)
        if self.arrangement is not None:
            return (self.arrangement,)
        if self.topology is None:
            orders = ALGORITHMS[self.algorithm].list_orders(self.workers)
            return tuple(Arrangement(order) for order in (orders[:1] if self._has_hints_by_step else orders))
        if ALGORITHMS[self.algorithm].splits_once and len(self.topology.levels) > 1:
            raise PlanError(
                f"algorithm={self.algorithm!r} splits over all workers at once and knows no levels; leave topology= out, or give one level."
            )
        return self.topology.arrange(self.workers)

    @property
    def _has_hints_by_step(self) -> bool:
        """Whether a hint lists choices for the single steps, which means those of the largest factors first."""
        return any(isinstance(hint, (list, tuple)) for hint in (self.hints or {}).values())

    def searching(self) -> Settings:
        """The same without a plan: for shapes that the plan given does not fit."""
        return replace(self, plan=None)

    def over(self, workers: int) -> Settings:
        """The same for another number of workers that split all they can, without what is of one number alone: a plan, levels, hints
        for single steps.
        """
        hints = {name: hint for name, hint in (self.hints or {}).items() if not isinstance(hint, tuple)}
        return replace(self, workers=workers, hints=hints, plan=None, topology=None, memory_limit=None)

    def check(self) -> None:
        """Raise PlanError where the settings contradict each other, before any graph is read."""
        given = [n for n, o in OPTIONS.items() if o.is_of_search and getattr(self, n) != DEFAULTS[n]]
        if self.plan is not None and given:
            raise PlanError(
                f"plan= is applied as it is, and {' and '.join(f'{name}=' for name in given)} would have another one searched. "
                "Leave one of them out."
            )
        if self.workers > 1:
            _ = self.arrangements


DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(Settings)}
OPTIONS: Mapping[str, Option] = {
    "hints": Option(read_hints, _plain_hints, _rich_hints),
    "plan": Option(read_plan, Plan.to_json, _read_plain_plan),
    "for_training": Option(partial(_read_switch, "for_training")),
    "cache": Option(partial(_read_switch, "cache")),
    "algorithm": Option(
        lambda name: find_algorithm(name).name,
        is_of_search=True,
        choices=tuple(ALGORITHMS),
        help="A search, or a baseline to compare with.",
    ),
    "search_seconds": Option(read_seconds, is_of_search=True, help="Effort of the exact search."),
    "topology": Option(
        read_topology,
        Topology.to_plain,
        is_of_search=True,
        metavar="BANDWIDTHS",
        help="Bytes per second of each level of the interconnect, from the top, separated by commas, or a JSON file with the levels.",
    ),
    "memory_limit": Option(
        read_bytes, metavar="SIZE", help='Of each worker, in bytes or like "12GB": what fits is searched.'
    ),
    "replicate": Option(
        _read_replicate,
        is_of_search=True,
        choices=REPLICATE,
        help="What may lie whole on several workers: small tensors, or whatever that saves traffic of; memory for it has to be there.",
    ),
    "undescribed": Option(
        _read_undescribed,
        choices=UNDESCRIBED,
        help="What to do about operators without a description: name them, or let every worker compute them whole.",
    ),
    "on_infeasible": Option(
        _read_on_infeasible,
        choices=ON_INFEASIBLE,
        help="What to do where there are more workers than the model can feed: say so, or let several compute the same.",
    ),
}


def read_options(given: Mapping[str, Any], options: Mapping[str, Option] = OPTIONS) -> dict[str, Any]:
    """The values that users give for options, as settings. Raises the TofuError of the first that is wrong."""
    return {
        name: None if value is None and DEFAULTS.get(name) is None else options[name].read(value)
        for name, value in given.items()
    }
