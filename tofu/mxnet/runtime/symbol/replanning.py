"""Choice of the plan when inputs change their shapes: the first plan if it fits, else another."""

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
"""Number of partitions kept per model. They are graphs in host memory, without arrays."""


class Replanner:
    """Partitions of one model for several input shapes.

    The plan for the first shapes is used whenever it fits, so that a smaller last batch with another plan does not
    change later batches. The last partitions are kept.
    """

    def __init__(self) -> None:
        self._first: dict[Hashable, Plan] = {}
        self._kept: dict[Hashable, Partition] = {}  # in order of last use

    def first_plan(self, kind: Hashable) -> Plan | None:
        """Return the plan that was found first for this kind of step."""
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
        """Return the partition for inputs of these shapes. Errors of `compile_with` leave the state unchanged.

        Parameters
        ----------
        kind
            What is trained, since a plan of another kind has no place for these gradients. None if other steps should
            not reuse the plan.
        shapes, types
            Shapes of the inputs, and everything else that a partition depends on.
        settings
            The user's options. Without another plan, their plan is used; if no plan fits, one is searched.
        compile_with
            Makes the partition for these shapes.
        present
            The plan that the model runs now, tried if the first one does not fit.
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
    try:
        return compile_with(replace(settings, plan=plan, strict_plan=False))
    except PlanError as error:
        return error


def describe_reason(error: Exception) -> str:
    """Return an error in one line: its headline, its first problem, and the number of the others."""
    headline, *problems = (line.strip().removeprefix("- ") for line in str(error).splitlines())
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return " ".join([headline, *problems[:1]]) + more
