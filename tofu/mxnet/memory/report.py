"""Report how much memory a training step of an MXNet model needs, on one device and on every worker.

A *fetch* copies data from other workers. The *peak* is the operator or fetch during which a device uses most memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tofu.formatting import format_bytes
from tofu.report.memory import MemoryComparison, name_workers

GRADIENTS, ACTIVATIONS, FETCH_BUFFERS = range(3)
USES = ("gradients", "activations", "fetch buffers")
LEGEND = {
    "": "The parts are counted at the peak, the operator or fetch at which most memory is in use, and are exact to the byte.",
    "idle": "Idle: buffers that are free at the peak.",
    "rounding on GPUs": "Rounding on GPUs: MXNet allocates whole pages for each array there.",
    "workspace, about": "Workspace: an estimate of temporary memory of convolutions.",
    "needed on a GPU": "Needed on a GPU: planned, with rounding and workspace.",
    "all gradients": "All gradients: an unmodified mx.mod.Module allocates them beside.",
    "the peak is at": "NAME@0: the part of an operator that worker 0 runs.",
}


@dataclass(frozen=True)
class DeviceMemory:
    """Memory that one device needs for a training step, in bytes.

    Attributes
    ----------
    name
        "one device", or a name such as "worker 3".
    parameters_bytes
        Weights.
    optimizer_bytes
        Optimizer states, such as momentum.
    inputs_bytes
        Data, labels, auxiliary states (such as moving means), and gradients of outputs.
    gradients_bytes
        All gradients at the end of a step. `pool_bytes` includes them.
    pool_bytes
        Buffers for gradients, activations and fetched data (the *pool*).
    workspace_bytes
        Estimate of the memory that kernels request while they run.
    rounding_bytes
        Memory lost on GPUs because MXNet rounds up array sizes.
    nodes
        Names of the device's operators and fetches, in the order of execution.
    uses
        Bytes of the pool in use while each node runs, as an array [kind, node]. `USES` lists the kinds.
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
        """Bytes that MXNet allocates before the step. GPUs also need `rounding_bytes`."""
        return self.parameters_bytes + self.optimizer_bytes + self.inputs_bytes + self.pool_bytes

    @property
    def needed_bytes(self) -> int:
        """Bytes that a GPU needs: `planned_bytes` + `rounding_bytes` + `workspace_bytes`."""
        return self.planned_bytes + self.rounding_bytes + self.workspace_bytes

    @cached_property
    def peak(self) -> int:
        """Position in `nodes` of the node that runs when most memory is in use."""
        return int(self.uses.sum(axis=0).argmax()) if self.nodes else 0

    @property
    def peak_node(self) -> str:
        """Name of the node that runs when most memory is in use."""
        return self.nodes[self.peak] if self.nodes else ""

    @property
    def at_peak(self) -> dict[str, int]:
        """Bytes by kind when most memory is in use, such as {"parameters": 512, "idle": 64}. Idle bytes are unused."""
        pooled = self.uses[:, self.peak].tolist() if self.nodes else [0] * len(USES)
        parts = {
            "parameters": self.parameters_bytes,
            "optimizer states": self.optimizer_bytes,
            "inputs and states": self.inputs_bytes,
            **dict(zip(USES, pooled, strict=True)),
        }
        return {**parts, "idle": self.planned_bytes - sum(parts.values())}

    @property
    def parts(self) -> dict[str, int]:
        """Title and bytes of each row of the printed table, such as {"parameters": 512, "idle": 64}."""
        return self.at_peak

    @property
    def total(self) -> tuple[str, int]:
        """Last row of the printed table: its title and the planned bytes."""
        return "planned", self.planned_bytes

    @property
    def facts(self) -> dict[str, int | str]:
        """Titles and values to print below the table: more sizes in bytes, and the node that runs at the peak."""
        return {
            "rounding on GPUs": self.rounding_bytes,
            "workspace, about": self.workspace_bytes,
            "needed on a GPU": self.needed_bytes,
            "all gradients": self.gradients_bytes,
            "the peak is at": self.peak_node,
        }

    def __repr__(self) -> str:
        return f"<DeviceMemory {self.name}: {self.planned_bytes} bytes planned, peak at {self.peak_node}>"


@dataclass(frozen=True)
class MemoryReport(MemoryComparison):
    """Memory that training needs on one device and on each worker, with optimizer states.

    `workers` is empty for a report on one device. Workers transfer `communication_bytes` in each step.
    """

    heading = "at the peak"
    legend = LEGEND

    one_device: DeviceMemory
    workers: tuple[DeviceMemory, ...]
    communication_bytes: int
    optimizer: str

    @property
    def largest(self) -> DeviceMemory:
        """The memory of the worker that needs most. If there are no workers, the memory of the one device."""
        return max(self.workers or (self.one_device,), key=lambda worker: worker.needed_bytes)

    @property
    def headline(self) -> str:
        """Title of the table: the optimizer, and the bytes that workers transfer."""
        moved = format_bytes(self.communication_bytes)
        workers = f"{len(self.workers)} workers, which transfer {moved} per step" if self.workers else "one device"
        return f"[bold]Memory of a training step[/bold] with {self.optimizer}: {workers}"

    @property
    def columns(self) -> list[tuple[str, DeviceMemory]]:
        """Columns of the printed table, each with a title. Workers with equal memory share a column."""
        return [("one device", self.one_device), *_list_kinds(self.workers)]


def _list_kinds(workers: tuple[DeviceMemory, ...]) -> Iterator[tuple[str, DeviceMemory]]:
    kinds: dict[tuple[int, ...], list[int]] = {}
    for number, worker in enumerate(workers):
        kinds.setdefault((*worker.at_peak.values(), worker.workspace_bytes), []).append(number)
    for numbers in kinds.values():
        yield name_workers(numbers), workers[numbers[0]]
