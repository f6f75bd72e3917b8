"""Choose a plan when the shapes of inputs change. The plan for the first shapes stays if it fits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from tofu.errors import PlanError
from tofu.pipeline import Partition
from tofu.plan import Plan
from tofu.planning.settings import Settings

logger = logging.getLogger("tofu")

MOST_PARTITIONS = 4
"""Number of planned graphs that are kept for each model. A planned graph needs host memory, but contains no arrays."""


class Replanner:
    """Plans of a model for different input shapes. An old plan is used again if it fits new shapes."""

    def __init__(self) -> None:
        self._first_plans: dict[Hashable, Plan] = {}
        self._partitions: dict[Hashable, Partition] = {}  # the last used partition comes last

    def first_plan(self, gradients: Hashable) -> Plan | None:
        """Return the first plan that computes these gradients, or None."""
        return self._first_plans.get(gradients)

    def find(
        self,
        gradients: Hashable,
        shapes: Mapping[str, tuple[int, ...]],
        types: Hashable,
        settings: Settings,
        compile_with: Callable[[Settings], Partition],
        present_plan: Plan | None = None,
    ) -> Partition:
        """Return the plan and graph for inputs of these shapes.

        Try the first plan for these gradients, then `present_plan`. If neither fits, make a new plan.

        Parameters
        ----------
        gradients
            Names of the arguments whose gradients are computed. None skips the first plan.
        shapes, types
            Shapes and types of the inputs.
        settings
            The user's options.
        compile_with
            Function that plans the model for these shapes with given settings.
        present_plan
            The plan in use.
        """
        key = gradients, types, *sorted(shapes.items())
        partition = self._partitions.pop(key, None)
        if partition is None:
            first_plan = self._first_plans.get(gradients)
            plans = (first_plan, None if present_plan is first_plan else present_plan)
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
