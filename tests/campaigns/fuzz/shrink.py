"""The smallest sample, and the fewest hints, that fail in the same way."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.campaigns.fuzz.plans import Asked
from tests.campaigns.fuzz.reduce import reduce_sample
from tests.campaigns.fuzz.sample import Sample
from tests.campaigns.fuzz.trial import Failure, Trial
from tests.shared.random_plans import random_plan
from tofu.pipeline import Partition

RANDOM_PLANS = 5  # tried of a smaller model, where what was chosen for the larger one does not fail


@dataclass(frozen=True)
class Failing:
    """A sample that fails, and how."""

    sample: Sample
    failure: Failure


def shrink(sample: Sample, failure: Failure, seconds: float = 120.0) -> Failing:
    """A smaller sample and fewer hints with a failure of the same kind; what was given, where it is not seen again."""
    until = time.process_time() + seconds
    best = probe(sample, failure.workers, failure.kind, failure.asked)
    if best is None:
        return Failing(sample, failure)
    failed = 0  # so many of the first steps do not fail any more, as far as was seen
    while time.process_time() < until:
        for number, smaller in enumerate(reduce_sample(best.sample)):
            if number < failed or time.process_time() > until:
                continue
            found = probe(smaller, best.failure.workers, failure.kind, best.failure.asked)
            if found is not None:
                best, failed = found, number
                break
        else:
            if not failed:
                break
            failed = 0
    best = _take_fewer_workers(best, until)
    return _take_fewer_hints(best, until + seconds / 2)


def probe(sample: Sample, workers: int, kind: str, asked: Asked, randoms: int = RANDOM_PLANS) -> Failing | None:
    """The sample with the first plan that fails in this way: the default one, what was asked as far as it fits, or a random one."""
    try:
        trial = Trial(sample, workers)
    except Exception:  # one device cannot run it
        return None
    default = trial.check("default", {}, thorough=kind == "memory")
    if _has(trial, kind):
        return Failing(sample, trial.outcome.failures[-1])
    if default is None:
        return None
    trial.task = replace(default.task, problem=default.searched.problem, settings=trial.partition({}).settings)
    tried = [asked, {"hints": _fit(default, asked)}] if asked else []
    for one in tried:
        if _check(trial, one, kind):
            return Failing(sample, trial.outcome.failures[-1])
    for seed in range(randoms):
        if _check(trial, {"hints": _list_choices(random_plan(default, seed).to_json())}, kind):
            return Failing(sample, trial.outcome.failures[-1])
    return None


def _check(trial: Trial, asked: Asked, kind: str) -> bool:
    trial.check("hints" if "hints" in asked else "another", asked, thorough=kind == "memory")
    return _has(trial, kind)


def _has(trial: Trial, kind: str) -> bool:
    return bool(trial.outcome.failures) and trial.outcome.failures[-1].kind == kind


def _list_choices(plan: str) -> dict[str, Any]:
    fields: Mapping[str, Mapping[str, Sequence[Any]]] = json.loads(plan)
    return {**fields["tensors"], **fields["operators"]}


def _fit(default: Partition, asked: Asked) -> dict[str, Any]:
    """Of what was asked, the choices for names that the graph has."""
    hints = asked.get("hints") or (_list_choices(asked["plan"]) if "plan" in asked else {})
    graph, steps = default.searched.problem.graph, len(default.plan.factors)
    known = {*graph.tensor_index, *graph.operator_index}
    return {name: choice for name, choice in hints.items() if name in known and len(choice) == steps}


def _take_fewer_workers(best: Failing, until: float) -> Failing:
    for workers in (2, 3, 4, 6, 8):
        if workers < best.failure.workers and time.process_time() < until:
            found = probe(best.sample, workers, best.failure.kind, {})
            if found is not None:
                return found
    return best


def _take_fewer_hints(best: Failing, until: float) -> Failing:
    """Without parts of the hints: half of them, a quarter, and at last one at a time."""
    hints = dict(best.failure.asked.get("hints", {}))
    size = len(hints) // 2
    while hints and size and time.process_time() < until:
        names, is_smaller = list(hints), False
        for first in range(0, len(names), size):
            fewer = {name: hints[name] for n, name in enumerate(names) if not first <= n < first + size}
            found = probe(best.sample, best.failure.workers, best.failure.kind, {"hints": fewer}, randoms=0)
            if found is not None and len(found.failure.asked.get("hints", {})) < len(hints):
                best, hints, is_smaller = found, dict(found.failure.asked.get("hints", {})), True
                break
        size = min(size, len(hints) // 2 or 1) if is_smaller else size // 2
    return replace(best)
