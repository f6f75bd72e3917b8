"""Plan traced steps. Planning needs no devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from jax.sharding import Mesh, PartitionSpec

from tofu.engine import Engine, Source
from tofu.errors import DeviceError, PlanError, UnsupportedError, raise_together, suggest
from tofu.jax.engine import JAX
from tofu.jax.frontend.read_step import divide_step, hoist_loop_sums
from tofu.jax.pytrees import make_state_hints, matches_hint
from tofu.pipeline import Observer, Partition, Task, analyse_step, make_partition, observe_by_environment
from tofu.plan import Plan
from tofu.planning.progress import show_progress
from tofu.planning.settings import OPTIONS, Settings, read_options
from tofu.search.topology import read_arrangement
from tofu.simulation.machine import find_interconnect
from tofu.validation import MOST_WORKERS

PLANNING_OPTIONS = tuple(name for name in OPTIONS if name != "for_training")
"""The options of planning. `for_training` is missing, because Tofu sees from a step whether it trains."""
PARTITION_PARAMETERS = ("donate_argnums", "uneven")
"""Parameters of `tofu.jax.partition` that are not options of planning."""
STATIC = (
    "Python numbers that the step needs while it is traced are static by themselves; functools.partial fixes others"
)
SHARDED = "the plan chooses the shardings of arguments and results; hints= fixes some"
REPLACEMENTS = {
    "workers": "it runs on the devices of the step whose state it reads",
    "static_argnums": STATIC,
    "static_argnames": STATIC,
    "donate_argnames": "donate_argnums= has their positions",
    "in_shardings": SHARDED,
    "out_shardings": SHARDED,
    "backend": "every step runs under jax.shard_map, with the plan's own collectives",
}
"""Options that a step does not accept, with advice for the error message."""
OTHER_NAMES_OF_WORKERS = ("mesh", "device", "devices", "contexts", "ngpus")
"""Other names for `workers=`, in JAX and in `tofu.partition`."""


def plan_step(source: Source, settings: Settings, observe: Observer | None = None, engine: Engine = JAX) -> Partition:
    """Plan a step and build the program that the workers run. Raise a TofuError if planning fails."""
    observe = observe or observe_by_environment()
    with show_progress("planning"):
        return make_partition(analyse(source, settings, observe, engine), observe)


def analyse(source: Source, settings: Settings, observe: Observer, engine: Engine = JAX) -> Task:
    """Find all ways to split each operator of a step."""
    return analyse_step(observe("read", choose_form(source, settings)), engine, settings, observe)


def choose_form(source: Source, settings: Settings) -> Source:
    """Choose one of several graphs of the step, for example with or without sums in loops.

    If the user passes a plan, return its graph. Otherwise, return the graph that should communicate least.
    """
    given = settings.plan or settings.saved
    for form in _list_forms(source, settings):
        if given is not None and given.fingerprint == form.graph.fingerprint:
            return form
        if given is None and not _list_lost(source, form).intersection(settings.hints or {}):
            return form
    return source


def _list_lost(source: Source, form: Source) -> set[str]:
    before, now = source.graph, form.graph
    return (before.tensor_index.keys() - now.tensor_index) | (before.operator_index.keys() - now.operator_index)


def _list_forms(source: Source, settings: Settings) -> Iterator[Source]:
    is_free = settings.replicate == "free" or settings.memory_limit is not None or settings.algorithm == "data-parallel"
    may_hoist = is_free or settings.plan is not None or settings.saved is not None
    for form in filter(None, (divide_step(source, settings.workers), source)):
        if may_hoist and (hoisted := hoist_loop_sums(form)) is not None:
            yield hoisted
        yield form


def _suggest_option(name: str) -> str:
    if name in REPLACEMENTS:
        return f" ({REPLACEMENTS[name]})"
    if name in OTHER_NAMES_OF_WORKERS:
        return " (workers= takes a number of devices, a jax.sharding.Mesh, or a list of devices)"
    return suggest(name, (*PARTITION_PARAMETERS, *PLANNING_OPTIONS, "workers", "example_args"), "=")


def check_names(options: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for unknown options."""
    unknown = [f"{name}= is not an option{_suggest_option(name)}" for name in options if name not in PLANNING_OPTIONS]
    if unknown:
        known = ", ".join(f"{name}=" for name in (*PARTITION_PARAMETERS, *PLANNING_OPTIONS))
        raise UnsupportedError(f"{'; '.join(unknown)}. The options are {known}.")


def _read_specs(hints: Any, mesh: Mesh | None) -> Any:
    """Replace each `PartitionSpec` in `hints` by the dimension that it splits, or by None if it splits nothing."""
    if not isinstance(hints, Mapping):
        return hints
    named_axes = 0 if mesh is None else sum(size > 1 for size in mesh.shape.values())
    return {
        name: _read_spec(name, hint, named_axes) if isinstance(hint, PartitionSpec) else hint
        for name, hint in hints.items()
    }


def _read_spec(name: str, spec: PartitionSpec, named_axes: int) -> int | None:
    split = [dimension for dimension, axis in enumerate(spec) if axis is not None and axis != ()]
    if not split:
        return None
    axes = spec[split[0]] if isinstance(spec[split[0]], tuple) else (spec[split[0]],)
    if len(split) > 1 or named_axes > 1 or len(axes) > 1 or not isinstance(axes[0], str):
        raise PlanError(
            f"hints= has {spec} for {name}, and Tofu cannot read it: the plan chooses the mesh and the names of its axes. Write the "
            f"dimension that all devices split, such as {split[0]}, or a dimension for each round, such as (0, 1)."
        )
    return split[0]


def read_settings(workers: int | None, options: Mapping[str, Any], mesh: Mesh | None = None) -> Settings:
    """Check the options of planning. If `workers` is None, use the number of workers in the option `plan`.

    Hints may be JAX's `PartitionSpec`s. They name an axis of the device grid `mesh`. Raise a TofuError for the first
    option that is wrong or contradicts another option.
    """
    check_names(options)
    values = dict(options)
    topology = values.pop("topology", None)
    if "hints" in values:
        values["hints"] = _read_specs(values["hints"], mesh)
    values = read_options(values)
    plan: Plan | None = values.get("plan")
    if workers is None and plan is not None:
        workers = plan.workers
    if workers is None or not 1 <= workers <= MOST_WORKERS:
        raise DeviceError(f"workers is {workers}; plans are made for 1 to {MOST_WORKERS} workers.")
    if plan is not None and plan.workers != workers:
        raise PlanError(
            f"The plan is for {plan.workers} workers, and workers= asks for {workers}. Use as many as the plan has, or leave plan= out, "
            "and one for these is searched."
        )
    settings = Settings(workers, **values, **read_options({"topology": find_interconnect(topology, workers)}))
    settings.check()
    return settings


def plan_on_same_state(
    partition: Partition, name: str, source: Source, part: Callable[[Any], Any], options: dict[str, Any], engine: Engine
) -> Partition:
    """Plan another step that uses the state of a planned step, with the same sharding.

    `part` selects the other step's first argument from the state. `name` is the name of the planned step. Raise
    ShapeError if shapes or types differ, or PlanError if `options` contradict the state's shardings.
    """
    planned = partition.plan
    hints = make_state_hints(source, partition, part)
    own_hints = dict(read_settings(planned.workers, options).hints or {})
    options.pop("hints", None)
    raise_together(
        PlanError,
        f"The first argument keeps its layout from {name}, and hints= contradict it. Remove these hints, or pass them there:",
        [
            f"{tensor} is split along {dimensions}"
            for tensor, dimensions in hints.items()
            if not matches_hint(own_hints, tensor, dimensions)
        ],
    )
    settings = read_settings(planned.workers, {**options, "hints": {**own_hints, **hints}})
    if settings.plan is not None and settings.plan.factors != planned.factors:
        raise PlanError(
            f"The plan has factors {settings.plan.factors}, and that of {name} {planned.factors}, whose layouts the state has. "
            "Remove plan= to search for a plan with these factors."
        )
    return plan_step(source, replace(settings, arrangement=read_arrangement(planned)), engine=engine)
