"""Which plan a model runs where its inputs change their shapes: the first one wherever it fits, and others where it does not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from tofu.errors import PlanError
from tofu.pipeline import Partition
from tofu.plan import Plan
from tofu.planning.settings import Settings

logger = logging.getLogger("tofu")

MOST_PARTITIONS = 4
"""Partitions that are kept of one model. They are graphs in the host's memory, without arrays."""


class Replanner:
    """The partitions of one model for inputs of several shapes.

    The plan of the shapes that came first is used wherever it fits, whatever was planned in between: a last, smaller batch may need
    another plan, which the batches after it do not take over. The partitions of the shapes that were used last are kept, so that going
    back to them analyses and searches nothing.
    """

    def __init__(self) -> None:
        self._first: dict[Hashable, Plan] = {}
        self._kept: dict[Hashable, Partition] = {}  # the last used is the last

    def first_plan(self, kind: Hashable) -> Plan | None:
        """The plan that was found first for this kind of step."""
        return self._first.get(kind)

    def find(
        self,
        kind: Hashable,
        shapes: Mapping[str, tuple[int, ...]],
        types: Hashable,
        settings: Settings,
        compile_with: Callable[[Settings], Partition],
        present: Plan | None = None,
    ) -> Partition:
        """The partition for inputs of these shapes. Raises what `compile_with` raises, and forgets nothing then.

        Parameters
        ----------
        kind
            What is trained: a plan of one kind has no place for the gradients of another. None for steps whose plan others do not use.
        shapes, types
            Of the inputs, and all else that a partition depends on.
        settings
            What the user asked for. Its plan is taken where there is no other, and where none fits, one is searched.
        compile_with
            Makes the partition for these shapes.
        present
            The plan that the model runs now, for shapes that the first one does not fit.
        """
        key = kind, types, *sorted(shapes.items())
        partition = self._kept.pop(key, None)
        if partition is None:
            partition = self._compile(kind, shapes, settings, compile_with, present)
        self._kept[key] = partition
        if len(self._kept) > MOST_PARTITIONS:
            del self._kept[next(iter(self._kept))]
        if kind is not None:
            self._first.setdefault(kind, partition.plan)
        return partition

    def _compile(
        self,
        kind: Hashable,
        shapes: Mapping[str, tuple[int, ...]],
        settings: Settings,
        compile_with: Callable[[Settings], Partition],
        present: Plan | None,
    ) -> Partition:
        first = self._first.get(kind)
        plans = [plan for plan in (first, None if present is first else present) if plan is not None]
        if not plans:
            return compile_with(settings)
        reason = ""
        for plan in plans:
            made = _apply(plan, settings, compile_with)
            if isinstance(made, Partition):
                return made
            reason = reason or describe_reason(made)
        logger.warning("The plan does not fit the shapes %s, so the search runs again. %s", dict(shapes), reason)
        return compile_with(settings.searching())


def _apply(plan: Plan, settings: Settings, compile_with: Callable[[Settings], Partition]) -> Partition | PlanError:
    """The partition by a plan of other shapes, or why it does not fit."""
    try:
        return compile_with(replace(settings, plan=plan, strict_plan=False))
    except PlanError as error:
        return error


def describe_reason(error: Exception) -> str:
    """An error in one line: of the problems that it lists the first, and how many there are."""
    headline, *problems = (line.strip().removeprefix("- ") for line in str(error).splitlines())
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return " ".join([headline, *problems[:1]]) + more
