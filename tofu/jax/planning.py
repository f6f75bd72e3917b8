"""A step that was read, through the pipeline: plans need no devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tofu.engine import Engine, Source
from tofu.errors import DeviceError, PlanError, UnsupportedError, raise_together, suggest
from tofu.jax.engine import JAX
from tofu.pipeline import Observer, Partition, analyse_step, make_partition, observe_by_environment
from tofu.plan import Plan
from tofu.planning.progress import search_progress
from tofu.planning.settings import OPTIONS, Settings, read_options
from tofu.reading import MOST_WORKERS

OF_STEPS = tuple(name for name in OPTIONS if name != "for_training")
"""The options that a step has: it says itself whether it trains."""


def plan_step(source: Source, settings: Settings, observe: Observer | None = None, engine: Engine = JAX) -> Partition:
    """The partition of a step that was read. Raises a TofuError of the pass that fails."""
    observe = observe or observe_by_environment()
    task = analyse_step(observe("read", source), engine, settings, observe)
    with search_progress(settings.workers) as progress:
        return make_partition(task, observe, progress)


def read_settings(workers: int | None, options: Mapping[str, Any]) -> Settings:
    """What users ask for, checked; no workers are those of the plan. Raises the TofuError of the first option that is wrong or contradicts
    another.
    """
    unknown = [f"{name}={suggest(name, OF_STEPS, '=')}" for name in options if name not in OF_STEPS]
    raise_together(UnsupportedError, f"There are no such options ({', '.join(OF_STEPS)}):", unknown)
    given = read_options(options)
    plan: Plan | None = given.get("plan")
    if workers is None and plan is not None:
        workers = plan.workers
    if workers is None or not 1 <= workers <= MOST_WORKERS:
        raise DeviceError(f"workers is {workers}; plans are made for 1 to {MOST_WORKERS} workers.")
    if plan is not None and plan.workers != workers:
        raise PlanError(
            f"The plan is for {plan.workers} workers, and workers= asks for {workers}. Use as many as the plan has, or leave plan= out, "
            "and one for these is searched."
        )
    settings = Settings(workers, **given)
    settings.check()
    return settings
