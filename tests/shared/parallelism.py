"""Bytes, seconds and memory of common ways to train in parallel, by formula.

The formulas take numbers of a step, not a model. P is the number of parameters, with weights and gradients of 2 bytes.
Collectives are rings within each level of the interconnect. A device receives (g - 1) / g of the result of an
all-gather among g devices, and the same of the operand of a reduce-scatter. An all-reduce is both. Computation hides
no communication. As with `topology=`, a collective waits once for the latency of each level that it crosses, and an
all-reduce twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd, prod

WEIGHT_BYTES = 2  # bf16 weights, and as many for gradients
OPTIMIZER_BYTES = 12  # float32 master copy and two moments
ACTIVATION_BYTES = 2


@dataclass(frozen=True)
class Link:
    """Level of the interconnect: the number of groups that it joins, and what one device has across it."""

    size: int
    bytes_per_second: float
    latency_seconds: float


@dataclass(frozen=True)
class StepSize:
    """Numbers of a step on which the formulas depend.

    Attributes
    ----------
    trained, frozen
        Parameters with and without gradients.
    layers
        Number of layers. Weights are moved layer by layer, and those outside of the layers together.
    tokens, width
        Tokens of the whole batch, and elements of a token between layers. 0 if tensor parallelism has no formula.
    layer_all_reduces
        All-reduces of tensor parallelism in a layer: two forward, two backward, and two if layers are recomputed.
    weight_reads
        Number of times that a step needs all weights: 2 with a backward pass.
    kept_bytes
        Inputs of layers kept for the backward pass, for the whole batch.
    inner_bytes
        Largest set of temporary values of one layer or of the loss, for the whole batch.
    data_bytes
        Data that every plan splits over all devices, such as a key-value cache.
    exchanged_bytes
        Activations that all devices gather even under data parallelism, such as the features of a graph's nodes.
    """

    trained: int
    frozen: int = 0
    layers: int = 1
    tokens: int = 0
    width: int = 0
    layer_all_reduces: int = 6
    weight_reads: int = 2
    kept_bytes: int = 0
    inner_bytes: int = 0
    data_bytes: int = 0
    exchanged_bytes: int = 0

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights."""
        return WEIGHT_BYTES * (self.trained + self.frozen)


@dataclass
class Traffic:
    """Bytes that a device receives, and waits, for each level. The top level is the first."""

    links: Sequence[Link]
    level_bytes: list[float] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.level_bytes, self.waits = [0.0] * len(self.links), [0] * len(self.links)

    def gather(self, group: Sequence[int], size_bytes: float, times: int = 1) -> None:
        """Count all-gathers or reduce-scatters of `size_bytes` in all. `times` is the number of collectives.

        A ring of rings first exchanges shards across the top level, where each of the devices below brings its own part.
        """
        if size_bytes == 0:
            return
        for level, extent in enumerate(group):
            if extent > 1:
                self.level_bytes[level] += size_bytes / prod(group[level + 1 :]) * (extent - 1) / extent
                self.waits[level] += times

    def reduce(self, group: Sequence[int], size_bytes: float, times: int = 1) -> None:
        """Count all-reduces, each a reduce-scatter and an all-gather."""
        self.gather(group, 2 * size_bytes, 2 * times)

    def send(self, level: int, size_bytes: float, times: int) -> None:
        """Count messages between two devices."""
        self.level_bytes[level] += size_bytes
        self.waits[level] += times

    @property
    def seconds(self) -> float:
        """Seconds of communication."""
        return sum(
            count / link.bytes_per_second + wait * link.latency_seconds
            for link, count, wait in zip(self.links, self.level_bytes, self.waits, strict=True)
        )


@dataclass(frozen=True)
class HandPlan:
    """Cost of a handmade plan for one device. `is_in_space` is False for plans that Tofu cannot express."""

    name: str
    received_bytes: float
    seconds: float
    memory_bytes: float
    is_in_space: bool = True
    bubble: float = 0.0
    """Share of the step in which a device of a pipeline waits for others."""


def split_group(links: Sequence[Link], inner: int, size: int) -> tuple[int, ...]:
    """Return the extents by level of a group of `size` devices, `inner` devices apart.

    >>> split_group([Link(4, 1, 0), Link(8, 1, 0)], 4, 16)
    (8 of 32 devices, for example, would be (4, 2))
    """
    extents = []
    for link in reversed(links):
        skipped = gcd(inner, link.size)
        extent = gcd(size, link.size // skipped)
        extents.append(extent)
        inner, size = inner // skipped, size // extent
    if inner > 1 or size > 1:
        raise ValueError(f"no {size} devices that are {inner} devices apart fit into {links}")
    return tuple(reversed(extents))
