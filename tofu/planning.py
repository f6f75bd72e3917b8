"""What the user asks of a plan, and where the plan comes from: given, remembered, or searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tofu.errors import PlanError, raise_together
from tofu.graph import Graph
from tofu.plan import Plan
from tofu.search import Choices, Problem
from tofu.search.algorithms import (
    BASELINES,
    DEFAULT_ALGORITHM,
    DEFAULT_SEARCH_SECONDS,
    choose_factors,
    describe_optimality,
)
from tofu.search.baselines import find_baseline
from tofu.search.problem import Progress


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
    strict_plan
        Whether that plan must be of this very graph; else it is applied where it is feasible.
    for_training
        Whether gradients are wanted at all.
    undescribed
        "error", or "replicate": whether operators without a description are computed whole by every worker.
    cache
        Whether plans are remembered by fingerprint.
    algorithm, search_seconds
        One of `tofu.search.algorithms.ALGORITHMS`, and how long the exact search may take.
    """

    workers: int
    hints: Mapping[str, Any] | None = None
    plan: Plan | None = None
    strict_plan: bool = True
    for_training: bool = True
    undescribed: str = "error"
    cache: bool = True
    algorithm: str = DEFAULT_ALGORITHM
    search_seconds: float = DEFAULT_SEARCH_SECONDS

    @property
    def factors(self) -> tuple[int, ...]:
        """The steps of the plan: those of the plan given, or of the algorithm."""
        return self.plan.factors if self.plan is not None else choose_factors(self.algorithm, self.workers)


_plans: dict[tuple[object, ...], Plan] = {}


def choose(graph: Graph, problem: Problem, settings: Settings, progress: Progress | None) -> tuple[Choices, str, str]:
    """The choices for `graph`, how they were found, and how good they are known to be."""
    plan = settings.plan
    if plan is not None:
        if settings.strict_plan and plan.fingerprint != graph.fingerprint:
            raise PlanError(_describe_difference(plan, graph))
        choices = problem.choices_of(plan)
        fixed_operators, fixed_tensors = problem.fix_hints(settings.hints or {})
        wrong = [
            problem.graph.operators[o].name
            for o, fixed in fixed_operators.items()
            if not _agrees(choices.operators[o], fixed)
        ]
        wrong += [
            problem.graph.tensors[t].name
            for t, fixed in fixed_tensors.items()
            if not _agrees(choices.tensors[t], fixed)
        ]
        raise_together(
            PlanError, "The plan and the hints contradict each other; leave one of them out. They differ for:", wrong
        )
        return choices, plan.algorithm, plan.optimality
    remembered = _plans.get(_cache_key(graph.fingerprint, settings)) if settings.cache else None
    if remembered is not None:
        return problem.choices_of(remembered), remembered.algorithm, remembered.optimality
    if settings.algorithm in BASELINES:
        found, optimality = find_baseline(
            problem, settings.algorithm, settings.hints, progress, settings.search_seconds
        )
        return found, settings.algorithm, optimality
    choices, result = problem.search(settings.hints, progress, settings.algorithm, settings.search_seconds)
    return choices, settings.algorithm, describe_optimality(result, bool(problem.equal.operators))


def _agrees(choice: Any, fixed: list[int]) -> bool:
    return all(wanted in (-2, int(taken)) for taken, wanted in zip(choice, fixed, strict=True))


def remember_plan(plan: Plan, settings: Settings) -> None:
    """Use `plan` from now on wherever its graph is planned with these settings, instead of a search."""
    _plans[_cache_key(plan.fingerprint, settings)] = plan


def _cache_key(fingerprint: str, settings: Settings) -> tuple[object, ...]:
    return fingerprint, settings.workers, settings.algorithm, _hints_key(settings)


def _hints_key(settings: Settings) -> str:
    return repr(sorted((settings.hints or {}).items(), key=lambda item: item[0]))


def _describe_difference(plan: Plan, graph: Graph) -> str:
    missing = [name for name in graph.tensor_index if name not in plan.tensors]
    extra = [name for name in plan.tensors if name not in graph.tensor_index]
    what = "; ".join(
        text
        for text in (
            f"the plan lacks {', '.join(missing[:5])}" if missing else "",
            f"the graph lacks {', '.join(extra[:5])}" if extra else "",
        )
        if text
    )
    what = what or "their names agree, so shapes, types, attributes or the arguments that are trained differ"
    return (
        f"The plan is of another graph (fingerprint {plan.fingerprint[:12]}, this graph has {graph.fingerprint[:12]}): {what}. "
        "Use it with the model and shapes that it was made for, or search again without plan=."
    )
