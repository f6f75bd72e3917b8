"""Planning options, which are the same for `tofu.partition`, the command line and symbol files.

To add an option, add a field to `Settings` with its default, an entry to `OPTIONS`, and an argument to
`tofu.partition`. A test compares the three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tofu.errors import PlanError, TofuError, UnsupportedError, raise_together
from tofu.plan import Plan
from tofu.search.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, find_algorithm
from tofu.search.solve import DEFAULT_SEARCH_SECONDS, read_seconds
from tofu.search.topology import Arrangement, Topology, read_arrangement, read_topology
from tofu.sizes import read_bytes
from tofu.validation import read_string, read_text, show, show_with_type

REPLICATE = ("small", "free")
UNDESCRIBED = ("error", "replicate")
ON_INFEASIBLE = ("error", "replicate")
PLAN_FORMS = "a tofu.Plan, the text of its to_json(), or the path of a file with that text"


@dataclass(frozen=True)
class Option:
    """The functions that read and write the value of a planning option.

    Attributes
    ----------
    read
        Function that converts the user's value to the field of `Settings`, or raises TofuError.
    to_plain, from_plain
        Functions that convert the field to a value in a JSON file, and back.
    is_of_search
        True if the option controls the search. It cannot be passed together with `plan=`.
    help, metavar, choices
        Texts of the command line option. If `help` is empty, the command line has no such option.
    """

    read: Callable[[Any], Any]
    to_plain: Callable[[Any], Any] = lambda setting: setting
    from_plain: Callable[[Any], Any] = lambda plain: plain
    is_of_search: bool = False
    help: str = ""
    metavar: str | None = None
    choices: Sequence[str] = ()


def read_hints(hints: Any) -> Mapping[str, Any]:
    """Return `hints`. Raise PlanError unless it is a dictionary from names to splits."""
    if not isinstance(hints, Mapping):
        raise PlanError(
            f"hints= maps names to dimensions or axes, for example hints={{'fc1_weight': 0}}; not {show_with_type(hints)}."
        )
    unnamed = [show(name) for name in hints if not isinstance(name, str)]
    raise_together(PlanError, "hints= maps names of tensors and operators. These are not text:", unnamed)
    return hints


def read_plan(plan: Any) -> Plan:
    """Convert a Plan, its JSON, or the path of a JSON file to a Plan. Raise PlanError for anything else."""
    if isinstance(plan, Plan):
        return plan
    if isinstance(plan, str) and plan.lstrip().startswith("{"):
        return Plan.from_json(plan)
    if not isinstance(plan, (str, Path)):
        raise PlanError(f"plan= takes {PLAN_FORMS}, not {show_with_type(plan)}.")
    try:
        text = read_text(plan)
    except (OSError, ValueError) as error:
        raise PlanError(f"plan= takes {PLAN_FORMS}; no such file can be read: {error}.") from error
    if not text.lstrip().startswith(("{", "[")):
        raise PlanError(
            f"{plan} is not a plan. `python -m tofu plan MODEL --save FILE` writes one; in Python, plan.to_json()."
        )
    try:
        return Plan.from_json(text)
    except PlanError as error:
        raise PlanError(f"{plan}: {error}") from error


def read_choice(name: str, choices: Sequence[str], error: type[TofuError], value: Any) -> str:
    """Return `value`. Raise `error` unless it is in `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise error(f"{name}= must be one of {', '.join(map(repr, choices))}, not {show(value)}.")
    return str(value)


def _read_bool(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise_together(PlanError, "These are either True or False:", [f"{name}={show(value)}"])
    return bool(value)


def _hints_to_plain(hints: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: ["..." if choice is Ellipsis else choice for choice in hint] if isinstance(hint, (list, tuple)) else hint
        for name, hint in hints.items()
    }


def _hints_from_plain(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    return {
        name: [Ellipsis if choice == "..." else choice for choice in hint] if isinstance(hint, list) else hint
        for name, hint in plain.items()
    }


@dataclass(frozen=True)
class Settings:
    """Options for a plan, as the user set them.

    Attributes
    ----------
    workers
        The number of devices, at least 2.
    hints
        Splits that the plan must use: dimensions of tensors and axes of operators, by name.
    plan
        A plan to apply instead of a search.
    for_training
        True if gradients are needed.
    undescribed
        Operators without a description: "error" refuses them, and "replicate" computes them on every worker.
    on_infeasible
        Models that cannot be split over so many workers: "error" refuses them, and "replicate" lets workers repeat
        computations. "accept" is "replicate" without a warning.
    cache
        True if plans are remembered, so that each model is searched only once.
    algorithm, search_seconds
        A name in `tofu.search.algorithms.ALGORITHMS`, and the effort of the exact search in seconds.
    topology
        The levels of the interconnect. If set, plans minimise seconds instead of bytes.
    memory_limit
        Bytes that each worker may use. If set, the plan replicates as many tensors as fit.
    replicate
        Tensors that a search without a memory limit may replicate: "small" for tensors below 64 KiB, or "free" for any.
    strict_plan
        False if `plan` may have been made for another graph with the same names.
    arrangement
        The prime factors of the number of workers, in the order of the plan's rounds. None for any order.
    saved
        A plan saved with these settings. It replaces the search if it belongs to the model.
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
        """The orders of the prime factors of `workers`. A plan is searched for each order."""
        if self.plan is not None:
            return (read_arrangement(self.plan),)
        if self.arrangement is not None:
            return (self.arrangement,)
        if self.topology is None:
            orders = ALGORITHMS[self.algorithm].list_orders(self.workers)
            return tuple(Arrangement(order) for order in (orders[:1] if self._has_hints_by_round else orders))
        if ALGORITHMS[self.algorithm].splits_once and len(self.topology.levels) > 1:
            raise PlanError(
                f"algorithm={self.algorithm!r} splits over all workers at once and ignores levels. Leave topology= out, or pass one level."
            )
        return self.topology.arrange(self.workers)

    @property
    def _has_hints_by_round(self) -> bool:
        return any(isinstance(hint, (list, tuple)) for hint in (self.hints or {}).values())

    def searching(self) -> Settings:
        """Return the settings without `plan`, so that a search finds one."""
        return replace(self, plan=None)

    def over(self, workers: int) -> Settings:
        """Return the settings for another number of workers.

        `plan`, `topology`, `memory_limit` and hints by round are dropped, because they depend on the number.
        """
        hints = {name: hint for name, hint in (self.hints or {}).items() if not isinstance(hint, tuple)}
        return replace(self, workers=workers, hints=hints, plan=None, topology=None, memory_limit=None)

    def check(self) -> None:
        """Raise PlanError if settings contradict each other."""
        set_by_user = [n for n, o in OPTIONS.items() if o.is_of_search and getattr(self, n) != DEFAULTS[n]]
        if self.plan is not None and set_by_user:
            raise PlanError(
                f"plan= applies a plan, and {' and '.join(f'{name}=' for name in set_by_user)} controls a search for another one. "
                "Leave one of them out."
            )
        if self.workers > 1:
            _ = self.arrangements


DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(Settings)}
OPTIONS: Mapping[str, Option] = {
    "hints": Option(read_hints, _hints_to_plain, _hints_from_plain),
    "plan": Option(read_plan, Plan.to_json, lambda plain: Plan.from_json(read_string(plain, "a plan"))),
    "for_training": Option(partial(_read_bool, "for_training")),
    "cache": Option(partial(_read_bool, "cache")),
    "algorithm": Option(
        lambda name: find_algorithm(name).name,
        is_of_search=True,
        choices=tuple(ALGORITHMS),
        help="Algorithm that finds the plan. exact and recursive search; others are baselines to compare with.",
    ),
    "search_seconds": Option(
        read_seconds,
        is_of_search=True,
        help="Effort of the exact search, in seconds of work. When it is used up, the best plan found is used.",
    ),
    "topology": Option(
        read_topology,
        Topology.to_plain,
        is_of_search=True,
        metavar="BANDWIDTHS",
        help="Bytes per second of each level of the interconnect, from the top, separated by commas; or a JSON file with the levels; "
        "or a machine, as --machine of `python -m tofu simulate`. "
        "The search then minimizes seconds instead of bytes.",
    ),
    "memory_limit": Option(
        read_bytes,
        metavar="SIZE",
        help='Memory that each worker may use, in bytes or like "12GB". The search then finds a plan that fits.',
    ),
    "replicate": Option(
        partial(read_choice, "replicate", REPLICATE, PlanError),
        is_of_search=True,
        choices=REPLICATE,
        help='Tensors that may be replicated: "small" for those below 64 KiB, "free" for any tensor if that saves communication. '
        "Replicated tensors need more memory.",
    ),
    "undescribed": Option(
        partial(read_choice, "undescribed", UNDESCRIBED, UnsupportedError),
        choices=UNDESCRIBED,
        help="Treatment of operators that Tofu has no description of: an error, or replicated computation on every worker.",
    ),
    "on_infeasible": Option(
        partial(read_choice, "on_infeasible", ON_INFEASIBLE, UnsupportedError),
        choices=ON_INFEASIBLE,
        help="Treatment of a model that cannot be split over so many workers: an error, or several workers compute the same.",
    ),
}


def read_options(values: Mapping[str, Any], options: Mapping[str, Option] = OPTIONS) -> dict[str, Any]:
    """Return the fields of `Settings` for a user's options. Raise TofuError for the first wrong value."""
    return {
        name: None if value is None and DEFAULTS.get(name) is None else options[name].read(value)
        for name, value in values.items()
    }
