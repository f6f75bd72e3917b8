"""Store the result of a simulation: the start and end of every task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tofu.formatting import format_bytes, format_count, format_rate, format_seconds
from tofu.program import NodeKind, PlannedProgram
from tofu.simulation.machine import Machine
from tofu.simulation.tasks import Tasks, is_update
from tofu.simulation.work import Floats


@dataclass(frozen=True)
class Simulation:
    """A simulated training step of a program on a machine.

    Attributes
    ----------
    samples
        The number of samples in a step: the length of dimension 0 of the model's first input.
    start, end
        Start and end of each task, in seconds.
    """

    machine: Machine
    workers: int
    samples: int
    program: PlannedProgram = field(repr=False)
    tasks: Tasks = field(repr=False)
    start: Floats = field(repr=False)
    end: Floats = field(repr=False)
    worker_bytes: tuple[int, ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds that the step takes."""
        return float(self.end.max(initial=0.0))

    @property
    def throughput(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds

    @property
    def fits(self) -> bool:
        """True if every worker fits into the memory of a device."""
        return max(self.worker_bytes, default=0) <= self.machine.usable_bytes

    @cached_property
    def _durations(self) -> Floats:
        return self.end - self.start

    def _sum_by_worker(self, is_counted: Any) -> Floats:
        seconds = np.bincount(self.tasks.worker[is_counted], self._durations[is_counted], self.workers)
        return np.asarray(seconds, np.float64)

    @property
    def fetch_seconds(self) -> Floats:
        """Seconds that each worker spends on reads from other workers."""
        return self._sum_by_worker(self.tasks.is_fetch)

    @property
    def compute_seconds(self) -> Floats:
        """Seconds that each worker spends on kernels and weight updates."""
        return self._sum_by_worker(~self.tasks.is_fetch)

    @property
    def update_seconds(self) -> Floats:
        """Seconds that each worker spends on weight updates."""
        return self._sum_by_worker(is_update(self.tasks.work))

    @property
    def waiting_share(self) -> float:
        """Average share of the step, from 0 to 1, in which a worker computes nothing."""
        return max(0.0, 1 - float(self.compute_seconds.mean()) / max(self.seconds, 1e-30))

    def __str__(self) -> str:
        needed_bytes = max(self.worker_bytes, default=0)
        update_seconds = float(self.update_seconds.mean())
        updates = f", including updates of {format_seconds(update_seconds)}" if update_seconds else ""
        lines = [
            f"{format_count(self.workers, 'worker')} on {self.machine}{self._describe_used_parts()}: "
            f"{format_seconds(self.seconds)} a step, "
            f"{format_rate(self.throughput)} samples per second",
            f"kernels {format_seconds(float(self.compute_seconds.mean()))} on each worker{updates}; "
            f"fetches {format_seconds(float(self.fetch_seconds.mean()))}; "
            f"{self.waiting_share:.0%} of a step without a kernel",
        ]
        if needed_bytes:
            verdict = "fits" if self.fits else "DOES NOT FIT"
            lines.append(
                f"memory {format_bytes(needed_bytes)} of {format_bytes(self.machine.usable_bytes)} on each worker: {verdict}"
            )
        return "\n".join(lines)

    def _describe_used_parts(self) -> str:
        if len(self.machine.links) < 2:
            return ""
        used = len({self.machine.part_of(worker, 0) for worker in range(self.workers)})
        hosts = self.machine.links[0].parts
        return "" if used == hosts else f" ({used} of {format_count(hosts, 'host')} used)"

    def to_trace(self) -> str:
        """Return the timeline as JSON for chrome://tracing or Perfetto, with two rows for each worker."""
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": worker, "args": {"name": f"worker {worker}"}}
            for worker in range(self.workers)
        ]
        for worker in range(self.workers):
            for row, name in enumerate(("kernels", "fetches")):
                events.append({"ph": "M", "name": "thread_name", "pid": worker, "tid": row, "args": {"name": name}})
        events += self._list_events()
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})

    def _list_events(self) -> Iterator[dict[str, Any]]:
        nodes = len(self.program.tables.node_kind)
        work = self.tasks.work
        for task in np.flatnonzero(self.tasks.seconds).tolist():
            kind = work.kinds[work.kind[task]]
            yield {
                "ph": "X",
                "name": self._find_name(task) if task < nodes else "update",
                "cat": "fetch" if self.tasks.is_fetch[task] else "kernel",
                "pid": int(self.tasks.worker[task]),
                "tid": int(self.tasks.is_fetch[task]),
                "ts": 1e6 * float(self.start[task]),
                "dur": 1e6 * float(self._durations[task]),
                "args": {"kind": kind, "bytes": int(work.size[task])},
            }

    def _find_name(self, node: int) -> str:
        tables, graph = self.program.tables, self.program.graph
        number = int(tables.node_id[node])
        return (
            graph.operators[number].name if tables.node_kind[node] == NodeKind.OPERATOR else graph.tensors[number].name
        )
