"""The memory of a training step on one device and on every worker, as values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

GRADIENTS, ACTIVATIONS, FETCH_BUFFERS = range(3)
USES = ("gradients", "activations", "fetch buffers")


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
    nodes: tuple[str, ...]
    uses: npt.NDArray[np.int64]

    @property
    def planned_bytes(self) -> int:
        """What is allocated, exactly; the workspace comes on top."""
        return self.parameters_bytes + self.optimizer_bytes + self.inputs_bytes + self.pool_bytes

    @property
    def needed_bytes(self) -> int:
        """What the device must have: what is planned, and the workspace as estimated."""
        return self.planned_bytes + self.workspace_bytes

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

    def fits(self, device_bytes: int) -> bool:
        """Whether `device_bytes` are enough for every worker."""
        return self.largest.needed_bytes <= device_bytes

    def __str__(self) -> str:
        from tofu.report.memory_table import format_report

        return format_report(self)
