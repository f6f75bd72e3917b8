"""The memory of a training step on one device and on every worker: values, and a table of them, part by part at the peak."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from tofu.plan import format_bytes
from tofu.report.console import print_legend, print_to_text
from tofu.sizes import read_bytes

GRADIENTS, ACTIVATIONS, FETCH_BUFFERS = range(3)
USES = ("gradients", "activations", "fetch buffers")
LEGEND = """
Parts are what they take at the peak, the operator or fetch at which most is in use. Idle: buffers that are free just then. Parameters to
idle are allocated, to the byte. The pool of GPU memory rounds each array up, which counts for what fits. Workspace, what convolutions ask
for while they run, is an estimate.
"""


@dataclass(frozen=True)
class DeviceMemory:
    """What one device needs for a training step, in bytes.

    Attributes
    ----------
    name
        "one device" or "worker 3".
    parameters_bytes, optimizer_bytes, inputs_bytes
        Held through all steps: weights; what the optimizer keeps for them; data, labels, head gradients and auxiliary states.
    gradients_bytes
        All gradients, as they are at the end of a step.
    pool_bytes
        Buffers that gradients, activations and fetch buffers share.
    workspace_bytes
        An estimate of what kernels ask for while they run.
    rounding_bytes
        What the engine's pool of GPU memory adds, which rounds each array up; nothing on CPUs.
    nodes
        Names of the device's operators and fetches in the order of execution.
    uses
        [use, node]: bytes of the pool in use at each of them, for gradients, activations and fetch buffers (fetched regions, padded
        copies, partial results).
    """

    name: str
    parameters_bytes: int
    optimizer_bytes: int
    inputs_bytes: int
    gradients_bytes: int
    pool_bytes: int
    workspace_bytes: int
    rounding_bytes: int
    nodes: tuple[str, ...]
    uses: npt.NDArray[np.int64]

    @property
    def planned_bytes(self) -> int:
        """What is allocated, exactly; the workspace comes on top, and on GPUs what their pool rounds up."""
        return self.parameters_bytes + self.optimizer_bytes + self.inputs_bytes + self.pool_bytes

    @property
    def needed_bytes(self) -> int:
        """What the device must have, if it is a GPU: what is planned, what its pool rounds up, and the workspace as estimated."""
        return self.planned_bytes + self.rounding_bytes + self.workspace_bytes

    @cached_property
    def peak(self) -> int:
        """Position in `nodes` at which most of the pool is in use."""
        return int(self.uses.sum(axis=0).argmax()) if self.nodes else 0

    @property
    def peak_node(self) -> str:
        """The operator or fetch at the peak."""
        return self.nodes[self.peak] if self.nodes else ""

    @property
    def at_peak(self) -> dict[str, int]:
        """Bytes of each part at the peak; together with what lies idle then they are `planned_bytes`."""
        pooled = self.uses[:, self.peak].tolist() if self.nodes else [0] * len(USES)
        parts = {
            "parameters": self.parameters_bytes,
            "optimizer states": self.optimizer_bytes,
            "inputs and states": self.inputs_bytes,
            **dict(zip(USES, pooled, strict=True)),
        }
        return {**parts, "idle": self.planned_bytes - sum(parts.values())}

    def __repr__(self) -> str:
        return f"<DeviceMemory {self.name}: {self.planned_bytes} bytes planned, peak at {self.peak_node}>"


@dataclass(frozen=True)
class MemoryReport:
    """One device and all workers (none where one device was asked for).

    `communication_bytes` is what the workers move in a step; `optimizer` says whose states are counted.
    """

    one_device: DeviceMemory
    workers: tuple[DeviceMemory, ...]
    communication_bytes: int
    optimizer: str

    @property
    def largest(self) -> DeviceMemory:
        """The worker that needs most, or the one device."""
        return max(self.workers or (self.one_device,), key=lambda worker: worker.needed_bytes)

    def fits(self, device_bytes: float | str) -> bool:
        """Whether so many bytes, or a size like "12GB", are enough for every worker. Raises PlanError for what is no size."""
        return self.largest.needed_bytes <= read_bytes(device_bytes, "device_bytes")

    def __str__(self) -> str:
        return print_to_text(lambda console: print_report(console, self))


def memory_report_table(report: MemoryReport) -> Table:
    """Parts as rows; one column for one device and one for each kind of worker, with its share of the single device's bytes."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("at the peak")
    devices = [("one device", report.one_device), *_list_kinds(report.workers)]
    for title, _ in devices:
        table.add_column(title, justify="right", overflow="fold")
    for part in report.one_device.at_peak:
        table.add_row(part, *(format_bytes(device.at_peak[part]) for _, device in devices))
    table.add_section()
    table.add_row("planned", *(format_bytes(device.planned_bytes) for _, device in devices), style="bold")
    whole = max(report.one_device.planned_bytes, 1)
    table.add_row("of one device", *(f"{device.planned_bytes / whole:.1%}" for _, device in devices))
    table.add_row("rounding on GPUs", *(format_bytes(device.rounding_bytes) for _, device in devices))
    table.add_row("workspace, about", *(format_bytes(device.workspace_bytes) for _, device in devices))
    table.add_row("all gradients", *(format_bytes(device.gradients_bytes) for _, device in devices))
    table.add_row("the peak is at", *(device.peak_node for _, device in devices), style="dim")
    return table


def _list_kinds(workers: tuple[DeviceMemory, ...]) -> Iterator[tuple[str, DeviceMemory]]:
    """Workers that need the same at the peak, together: their numbers, and the first of them."""
    kinds: dict[tuple[int, ...], list[int]] = {}
    for number, worker in enumerate(workers):
        kinds.setdefault((*worker.at_peak.values(), worker.workspace_bytes), []).append(number)
    for numbers in kinds.values():
        yield f"worker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}", workers[numbers[0]]


def print_report(console: Console, report: MemoryReport) -> None:
    """The headline, the table and what it means."""
    moved = format_bytes(report.communication_bytes)
    workers = f"{len(report.workers)} workers, which move {moved} in a step" if report.workers else "one device"
    console.print(f"[bold]Memory of a training step[/bold] with {report.optimizer}: {workers}\n")
    console.print(memory_report_table(report))
    print_legend(console, LEGEND)
