"""Plan a large model in a separate process, and measure the plan and the planner."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from tests.shared.isolation import Failure, Send, run_isolated
from tests.shared.rings import Link, assign_rounds
from tofu.engine import Source
from tofu.graph import TensorKind
from tofu.pipeline import Partition
from tofu.search.dataflow import SHARED_KINDS
from tofu.search.rounds import factorize

HOST = 8
NEAR, FAR = (450e9, 5e-6), (50e9, 20e-6)
"""Bytes per second of one device, and seconds of latency: within a host, and between hosts."""


@dataclass(frozen=True)
class Request:
    """A model to plan. `samples` is the batch size. If `is_apart` is True, repeated layers are not recognized."""

    model: str
    samples: int
    devices: int
    levels: str
    plan: str
    search_seconds: float
    uneven: str | None = None
    is_apart: bool = False

    @property
    def links(self) -> tuple[Link, ...]:
        """The levels of the interconnect, the top level first. Two levels need several hosts."""
        if self.levels == "one":
            return (Link(self.devices, *NEAR),)
        return Link(self.devices // HOST, *FAR), Link(HOST, *NEAR)

    @property
    def has_links(self) -> bool:
        return self.levels == "one" or (self.devices > HOST and self.devices % HOST == 0)

    @property
    def topology(self) -> dict[str, Any]:
        """The option `topology`, for two levels. The devices of a level share its bandwidth."""
        if self.levels == "one":
            return {}
        levels = [
            {
                "workers": link.size,
                "bytes_per_second": self.devices * link.bytes_per_second,
                "microseconds": 1e6 * link.latency_seconds,
            }
            for link in self.links
        ]
        return {"topology": levels}


def _fix_data_parallelism(source: Source, devices: int, groups: int) -> Mapping[str, Any]:
    """Return options for data parallelism. Weights and states are split within each of `groups` groups."""
    rounds, copies = len(factorize(devices)), len(factorize(groups))
    hints: dict[str, Any] = {}
    for tensor in source.graph.tensors:
        if tensor.kind in SHARED_KINDS:
            hints[tensor.name] = (None,) * copies + (...,) * (rounds - copies)
        elif tensor.kind is TensorKind.INPUT:
            hints[tensor.name] = 0
    return {"replicate": "free", "hints": hints}


PLANS: Mapping[str, Callable[[Source, int], Mapping[str, Any]]] = {
    "small": lambda source, devices: {"replicate": "small"},
    "free": lambda source, devices: {"replicate": "free"},
    "dp": lambda source, devices: _fix_data_parallelism(source, devices, devices),
    "hsdp": lambda source, devices: _fix_data_parallelism(source, devices, devices // HOST),
}
"""Name of a row -> the options of planning, for a step and a number of devices. The last two are data parallelism, and
weights split within a host: plans that people make by hand, completed by a search and counted like the others."""


@dataclass(frozen=True)
class Row:
    """A plan and the planner's cost. Bytes of a plan are for all devices, and memory is for one.

    The seconds are processor time: JAX's tracing alone, reading with tracing, search, and all else. `error` explains
    what is missing.
    """

    request: Request
    communication_bytes: int | None = None
    communication_seconds: float | None = None
    proof: str = ""
    jaxpr_seconds: float | None = None
    reading_seconds: float | None = None
    searching_seconds: float | None = None
    other_seconds: float | None = None
    planner_bytes: int | None = None
    operators: int | None = None
    arguments_bytes: int | None = None
    temporaries_bytes: int | None = None
    needed_bytes: int | None = None
    error: str = ""


SECONDS = ("jaxpr_seconds", "reading_seconds", "searching_seconds", "other_seconds")


@dataclass(frozen=True)
class Limits:
    """Limits of a row: seconds for the plan and for the report of its memory, and memory of the planner."""

    plan_seconds: float
    report_seconds: float
    planner_bytes: int


def measure(request: Request, repeat: int, limits: Limits) -> Row:
    """Plan a model in `repeat` new processes, and return the medians of their seconds and memory."""
    rows = []
    for _ in range(repeat):
        row = Row(request)
        messages = run_isolated(
            _plan,
            request,
            seconds=limits.plan_seconds,
            later_seconds=limits.report_seconds,
            memory_bytes=limits.planner_bytes,
        )
        for message in messages:
            row = replace(row, **(_explain(row, message) if isinstance(message, Failure) else message))
        if row.communication_bytes is None:
            return row
        rows.append(row)
    medians = {name: median(getattr(row, name) for row in rows) for name in (*SECONDS, "planner_bytes")}
    return replace(rows[-1], **medians)


def _explain(row: Row, failure: Failure) -> dict[str, str]:
    is_planned = row.communication_bytes is not None
    return {"error": f"no memory report: {failure.reason}" if is_planned else failure.reason}


def _plan(send: Send, request: Request) -> None:
    import jax

    from tests.models.jax.language import transformer
    from tests.models.jax.large import MODELS
    from tests.shared.stages import Stages
    from tofu.jax.engine import make_engine
    from tofu.jax.frontend.read_step import donate, read_step
    from tofu.jax.memory import predict_memory
    from tofu.jax.planning import plan_step, read_settings
    from tofu.search import repeated_layers

    small = transformer()  # imports and first calls are not part of the times
    plan_step(read_step(small.step, (small.state, small.data)), read_settings(2, {"cache": False}))
    if request.is_apart:
        repeated_layers.LEAST_OPERATORS = sys.maxsize
    model = MODELS[request.model].build(request.samples)
    _, jaxpr_seconds = _time(lambda: jax.make_jaxpr(model.step)(model.state, model.data))
    jax.clear_caches()
    source, reading_seconds = _time(lambda: donate(read_step(model.step, (model.state, model.data)), 0))
    options = PLANS[request.plan](source, request.devices)
    searching = {} if "plan" in options else {**request.topology, "search_seconds": request.search_seconds}
    settings = read_settings(request.devices, {**searching, **options, "cache": False})
    stages = Stages()
    partition = plan_step(source, settings, stages, make_engine(request.uneven))
    plan, passes = partition.plan, stages.processor_seconds
    send(
        {
            "communication_bytes": plan.communication_bytes,
            "communication_seconds": _count_seconds(partition, request.links),
            "proof": plan.optimality,
            "jaxpr_seconds": jaxpr_seconds,
            "reading_seconds": reading_seconds + passes["read"],
            "searching_seconds": passes["selected"],
            "other_seconds": sum(passes.values()) - passes["read"] - passes["selected"],
            "planner_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            "operators": len(source.graph.operators),
            "arguments_bytes": max(plan.worker_bytes),
        }
    )
    memory = predict_memory(partition).worker
    send({"temporaries_bytes": memory.temporaries_bytes, "needed_bytes": memory.needed_bytes})


def _time(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def _count_seconds(partition: Partition, links: Sequence[Link]) -> float:
    from tofu.search.cost import count_levels

    level_bytes, level_waits = count_levels(partition.choices)
    rounds = assign_rounds(links, partition.plan.factors)
    each = zip(rounds, level_bytes, level_waits, strict=True)
    workers = partition.plan.workers
    return sum(count / workers / link.bytes_per_second + waits * link.latency_seconds for link, count, waits in each)
