"""Choose a plan when the shapes of inputs change. The plan for the first shapes stays if it fits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tofu.errors import PlanError
from tofu.pipeline import Partition
from tofu.plan import Plan
from tofu.planning.settings import Settings

logger = logging.getLogger("tofu")

MOST_PARTITIONS = 4
"""Number of planned graphs that are kept for each model. A planned graph needs host memory, but contains no arrays."""


class Replanner:
    """Plans of a model for different input shapes.

    `compile_for` is `PartitionedSymbol.compile_for`, which plans the model.
    """

    def __init__(self, compile_for: Callable[..., Partition]) -> None:
        self._compile_for = compile_for
        self._first_plans: dict[tuple[str, ...], Plan] = {}  # by the arguments that have gradients
        self._partitions: dict[Hashable, Partition] = {}  # the last used partition comes last

    def find_first_plan(self, differentiated: Sequence[str] | None) -> Plan | None:
        """Return the first plan with gradients of the arguments `differentiated`, or None."""
        return None if differentiated is None else self._first_plans.get(tuple(differentiated))

    def find(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        types: Mapping[str, Any],
        differentiated: Sequence[str] | None,
        updated: Collection[str],
        settings: Settings,
        present_plan: Plan | None = None,
    ) -> Partition:
        """Return the plan and graph for inputs of these shapes.

        Two plans are tried before a new one is made: the first plan for these gradients, and `present_plan`, which is
        the plan in use. If `differentiated` is None, compute no gradients, and try only `present_plan`. For the other
        arguments, see `PartitionedSymbol.compile_for`.
        """
        gradients = None if differentiated is None else tuple(differentiated)
        key = gradients, *sorted(types.items()), *sorted(shapes.items())
        partition = self._partitions.pop(key, None)
        if partition is None:
            first_plan = self.find_first_plan(differentiated)
            plans = (first_plan, None if present_plan is first_plan else present_plan)
            compile_with = partial(self._compile_for, shapes, types, gradients or (), updated)
            partition = _plan_like([plan for plan in plans if plan is not None], shapes, settings, compile_with)
        self._partitions[key] = partition
        if len(self._partitions) > MOST_PARTITIONS:
            del self._partitions[next(iter(self._partitions))]
        if gradients is not None:
            self._first_plans.setdefault(gradients, partition.plan)
        return partition


def _plan_like(
    plans: Sequence[Plan],
    shapes: Mapping[str, tuple[int, ...]],
    settings: Settings,
    compile_with: Callable[[Settings], Partition],
) -> Partition:
    problems = []
    for plan in plans:
        try:
            return compile_with(replace(settings, plan=plan, strict_plan=False))
        except PlanError as error:  # noqa: PERF203  each plan is tried
            problems.append(_shorten(error))
    if not problems:
        return compile_with(settings)
    logger.warning("The plan does not fit the shapes %s, so the search runs again. %s", dict(shapes), problems[0])
    return compile_with(settings.searching())


def _shorten(error: Exception) -> str:
    headline, *problems = (line.strip().removeprefix("- ") for line in str(error).splitlines())
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return " ".join([headline, *problems[:1]]) + more
