"""Simulated step times of a partition on the machines that come with Tofu, for the HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tofu.formatting import format_bytes, format_rate, format_seconds
from tofu.pipeline import Partition
from tofu.simulation.machine import list_machines, read_machine
from tofu.simulation.simulate import measure_partition, simulate
from tofu.simulation.timeline import Simulation

TRACKED = "simulating machines"


def describe_durations(
    partition: Partition, track: Callable[[Sequence[Any], str], Iterable[Any]]
) -> list[dict[str, Any]]:
    """Return a row for each machine with enough devices, the fastest first."""
    machines = [machine for machine in map(read_machine, list_machines()) if machine.devices >= partition.plan.workers]
    if not machines:
        return []
    program, needed = partition.program, measure_partition(partition)
    found = [simulate(program, machine, worker_bytes=needed) for machine in track(machines, TRACKED)]
    return [_describe(simulation) for simulation in sorted(found, key=lambda simulation: simulation.seconds)]


def _describe(found: Simulation) -> dict[str, Any]:
    updates = float(found.update_seconds.mean())
    kernels = float(found.compute_seconds.mean()) - updates
    return {
        "machine": found.machine.name,
        "step": format_seconds(found.seconds),
        "throughput": format_rate(found.throughput),
        "kernels": format_seconds(kernels),
        "updates": format_seconds(updates),
        "fetches": format_seconds(float(found.fetch_seconds.mean())),
        "waiting": f"{found.waiting_share:.0%}",
        "shares": [("plain", kernels / found.seconds), ("update", updates / found.seconds)],
        "memory": f"{format_bytes(max(found.worker_bytes))} of {format_bytes(found.machine.usable_bytes)}"
        + ("" if found.fits else ": does not fit"),
    }
