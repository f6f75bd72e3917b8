"""Simulate a plan on the machines that come with Tofu, for the HTML page of the plan."""

from __future__ import annotations

from typing import Any

from tofu.formatting import format_bytes, format_rate, format_seconds
from tofu.pipeline import Partition
from tofu.planning.progress import track_progress
from tofu.simulation.machine import list_machines, read_machine
from tofu.simulation.simulate import measure_partition, simulate
from tofu.simulation.timeline import Simulation


def describe_durations(partition: Partition) -> list[dict[str, Any]]:
    """Simulate a plan on all machines with enough devices. Return a row for each, the fastest first."""
    machines = [machine for machine in map(read_machine, list_machines()) if machine.devices >= partition.plan.workers]
    if not machines:
        return []
    program, worker_bytes = partition.program, measure_partition(partition)
    tracked_machines = track_progress(machines, "simulating machines")
    simulations = [simulate(program, machine, worker_bytes=worker_bytes) for machine in tracked_machines]
    return [_describe(simulation) for simulation in sorted(simulations, key=lambda simulation: simulation.seconds)]


def _describe(simulation: Simulation) -> dict[str, Any]:
    update_seconds = float(simulation.update_seconds.mean())
    kernel_seconds = float(simulation.compute_seconds.mean()) - update_seconds
    return {
        "machine": simulation.machine.name,
        "step": format_seconds(simulation.seconds),
        "throughput": format_rate(simulation.throughput),
        "kernels": format_seconds(kernel_seconds),
        "updates": format_seconds(update_seconds),
        "fetches": format_seconds(float(simulation.fetch_seconds.mean())),
        "waiting": f"{simulation.waiting_share:.0%}",
        "shares": [("plain", kernel_seconds / simulation.seconds), ("update", update_seconds / simulation.seconds)],
        "memory": f"{format_bytes(max(simulation.worker_bytes))} of {format_bytes(simulation.machine.usable_bytes)}"
        + ("" if simulation.fits else ": does not fit"),
    }
