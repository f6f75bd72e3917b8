"""Communication and memory of common ways to train in parallel, by formula.

The formulas need only a few numbers of a step, and count what one device receives. Collectives are rings in each level
of the interconnect, and no computation hides them. A collective waits once for the latency of each level that it
crosses, and an all-reduce twice. Weights and gradients have 2 bytes; the optimizer has a master copy and two moments of
4 bytes each.

>>> links = [Link(4, 50e9, 20e-6), Link(8, 450e9, 5e-6)]
>>> for plan in list_hand_plans(StepSize(trained=10**9, samples=64, layers=10), links):
...     print(f"{plan.name:8} {plan.received_bytes / 1e9:.2f} GB, {plan.memory_bytes / 1e9:.1f} GB")
DP       3.88 GB, 16.0 GB
ZeRO-1   3.88 GB, 4.4 GB
FSDP     5.81 GB, 0.9 GB
HSDP 8   5.62 GB, 2.4 GB
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod

from tests.shared.rings import Link, Traffic, split_group

NUMBER_BYTES = 2
OPTIMIZER_BYTES = 12  # of a parameter
MOST_TENSOR_DEVICES = 8
MOST_STAGES = 8


@dataclass(frozen=True)
class StepSize:
    """Numbers of a step for the formulas.

    Attributes
    ----------
    trained, frozen
        Parameters with and without gradients.
    samples
        Sequences or images in the batch. At most this many devices can divide it.
    layers
        Number of layers. Weights are transferred layer by layer; weights outside of the layers together.
    tokens, width
        Tokens in the batch, and elements of a token between layers. Tensor and pipeline parallelism need them.
    layer_all_reduces
        All-reduces of tensor parallelism in a layer: two forward, two backward, and two if layers are recomputed.
    weight_reads
        Number of times that a step reads all weights: 2 with a backward pass.
    kept_bytes
        Inputs of layers that are kept for the backward pass, for the whole batch.
    inner_bytes
        Other activations that exist at one time, for the whole batch.
    data_bytes
        Data that every plan splits over all devices, such as a key-value cache.
    exchanged_bytes
        Activations that all devices gather even under data parallelism, such as the features of a graph's nodes.
    """

    trained: int
    frozen: int = 0
    samples: int = 1
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
        return NUMBER_BYTES * (self.trained + self.frozen)

    @property
    def gradient_bytes(self) -> int:
        return NUMBER_BYTES * self.trained

    @property
    def optimizer_bytes(self) -> int:
        return OPTIMIZER_BYTES * self.trained

    @property
    def state_bytes(self) -> int:
        return self.weight_bytes + self.gradient_bytes + self.optimizer_bytes

    @property
    def between_layers_bytes(self) -> int:
        return NUMBER_BYTES * self.tokens * self.width

    @property
    def messages(self) -> int:
        return self.layers + 1


@dataclass(frozen=True)
class HandPlan:
    """Cost of a handmade plan for one device.

    Attributes
    ----------
    received_bytes, level_bytes
        Bytes that a device receives in a step, in total and across each level, the top level first.
    seconds
        Seconds of communication.
    memory_bytes
        Bytes of state, data, and activations.
    is_in_space
        False for pipelines, which Tofu cannot express.
    idle_share
        Share of the step in which the devices of a pipeline wait for their first or last samples.
    """

    name: str
    level_bytes: tuple[float, ...]
    seconds: float
    memory_bytes: float
    is_in_space: bool = True
    idle_share: float = 0.0

    @property
    def received_bytes(self) -> float:
        return sum(self.level_bytes)


def list_hand_plans(size: StepSize, links: Sequence[Link]) -> Iterator[HandPlan]:
    """Yield the plans that apply to a step and an interconnect.

    Tensor parallelism and the shards of HSDP stay within a group of the lowest level, and use at most 8 devices.
    """
    devices = prod(link.size for link in links)
    near = gcd(MOST_TENSOR_DEVICES, links[-1].size)
    if size.samples >= devices:
        yield data_parallel(size, links)
        if size.trained:
            yield zero_1(size, links)
        yield fsdp(size, links)
        if 1 < near < devices:
            yield hsdp(size, links, near)
    if not size.width:
        return
    if near > 1 and size.samples >= devices // near:
        yield tensor_parallel(size, links, near)
        if size.trained and near < devices:
            yield tensor_parallel(size, links, near, has_zero=True)
    for ways in sorted({1, near}) if size.trained else ():
        stages = gcd(MOST_STAGES, links[0].size if len(links) > 1 else devices // ways)
        if stages > 1 and size.samples >= devices // ways // stages:
            yield pipeline(size, links, ways, stages)


def _start(size: StepSize, links: Sequence[Link]) -> tuple[Traffic, tuple[int, ...]]:
    traffic, everyone = Traffic(links), tuple(link.size for link in links)
    # Forward, each layer gathers its inputs. Backward, the gradients of all inputs but the first are reduced.
    traffic.gather(everyone, size.exchanged_bytes, 2 * size.layers - 1)
    return traffic, everyone


def _count_activations(size: StepSize, batch_ways: int, tensor_ways: int = 1) -> float:
    """Return the bytes of activations and data. Tensor parallelism splits all but the inputs of layers."""
    split = size.inner_bytes / tensor_ways + size.data_bytes / tensor_ways
    return (size.kept_bytes + split) / batch_ways


def data_parallel(size: StepSize, links: Sequence[Link]) -> HandPlan:
    """Return data parallelism: an all-reduce of gradients, 4P(k - 1)/k bytes for P parameters on k devices."""
    traffic, everyone = _start(size, links)
    traffic.reduce(everyone, size.gradient_bytes, size.messages)
    memory = size.state_bytes + _count_activations(size, prod(everyone))
    return HandPlan("DP", tuple(traffic.level_bytes), traffic.seconds, memory)


def zero_1(size: StepSize, links: Sequence[Link]) -> HandPlan:
    """Return ZeRO-1: reduce-scatter gradients, gather new weights, 4P(k - 1)/k bytes for P parameters on k devices.

    Each device holds its shard of the optimizer's state.
    """
    traffic, everyone = _start(size, links)
    traffic.gather(everyone, size.gradient_bytes, size.messages)
    traffic.gather(everyone, NUMBER_BYTES * size.trained, size.messages)
    devices = prod(everyone)
    memory = size.weight_bytes + size.gradient_bytes + size.optimizer_bytes / devices
    return HandPlan("ZeRO-1", tuple(traffic.level_bytes), traffic.seconds, memory + _count_activations(size, devices))


def fsdp(size: StepSize, links: Sequence[Link]) -> HandPlan:
    """Return FSDP (ZeRO-3): gather weights forward and backward, and reduce-scatter gradients.

    For P parameters on k devices, a device receives 6P(k - 1)/k bytes. It holds its shard of the state, and the weights
    and gradients of one layer.
    """
    traffic, everyone = _start(size, links)
    _add_sharded(traffic, size, everyone)
    devices = prod(everyone)
    memory = size.state_bytes / devices + _count_layer(size) + _count_activations(size, devices)
    return HandPlan("FSDP", tuple(traffic.level_bytes), traffic.seconds, memory)


def hsdp(size: StepSize, links: Sequence[Link], shards: int) -> HandPlan:
    """Return HSDP: FSDP among s = `shards` near devices, and an all-reduce of gradients among these groups.

    For P parameters on k devices, a device receives 6P(s - 1)/s bytes from near devices, and 4P/s (k/s - 1)/(k/s) from
    others.
    """
    traffic, everyone = _start(size, links)
    devices = prod(everyone)
    _add_sharded(traffic, size, split_group(links, 1, shards))
    traffic.reduce(split_group(links, shards, devices // shards), size.gradient_bytes / shards, size.messages)
    memory = size.state_bytes / shards + _count_layer(size) + _count_activations(size, devices)
    return HandPlan(f"HSDP {shards}", tuple(traffic.level_bytes), traffic.seconds, memory)


def _add_sharded(traffic: Traffic, size: StepSize, group: Sequence[int]) -> None:
    traffic.gather(group, size.weight_reads * size.weight_bytes, size.weight_reads * size.messages)
    traffic.gather(group, size.gradient_bytes, size.messages)


def _count_layer(size: StepSize) -> float:
    return (size.weight_bytes + size.gradient_bytes) / size.layers


def tensor_parallel(size: StepSize, links: Sequence[Link], ways: int, has_zero: bool = False) -> HandPlan:
    """Return tensor parallelism among t = `ways` near devices, and data parallelism or ZeRO-1 among these groups.

    Each layer all-reduces activations in a group, 2(t - 1)/t times their bytes. Gradients of 1/t of the weights are
    all-reduced among groups.
    """
    devices = prod(link.size for link in links)
    batch_ways, traffic = devices // ways, Traffic(links)
    messages = size.layer_all_reduces * size.layers
    traffic.reduce(split_group(links, 1, ways), messages * size.between_layers_bytes / batch_ways, messages)
    traffic.reduce(split_group(links, ways, batch_ways), size.gradient_bytes / ways, size.messages)
    optimizer_ways = devices if has_zero else ways
    state = (size.weight_bytes + size.gradient_bytes) / ways + size.optimizer_bytes / optimizer_ways
    name = f"TP {ways} x {'ZeRO-1' if has_zero else 'DP'}" if batch_ways > 1 else f"TP {ways}"
    memory = state + _count_activations(size, batch_ways, ways)
    return HandPlan(name, tuple(traffic.level_bytes), traffic.seconds, memory)


def pipeline(size: StepSize, links: Sequence[Link], ways: int, stages: int) -> HandPlan:
    """Return a pipeline of p stages between the farthest devices, with tensor and data parallelism in each stage.

    Stages have equal numbers of parameters. A stage receives the activations of its samples once, and their gradients
    once. With m samples in sequence (1F1B), the first stage stores at most p of them, and the stages are idle for (p -
    1)/(m + p - 1) of a step.
    """
    devices = prod(link.size for link in links)
    batch_ways, traffic = devices // ways // stages, Traffic(links)
    samples = size.samples // batch_ways
    each = size.between_layers_bytes / batch_ways
    messages = size.layer_all_reduces * size.layers / stages
    traffic.reduce(split_group(links, 1, ways), messages * each, messages * samples)
    traffic.reduce(split_group(links, ways, batch_ways), size.gradient_bytes / ways / stages, size.messages / stages)
    traffic.send(split_group(links, devices // stages, stages), 2 * each, 2 * samples)
    alive = (size.kept_bytes * min(stages, samples) / stages + size.inner_bytes / ways) / size.samples
    memory = size.state_bytes / ways / stages + alive + size.data_bytes / devices
    names = [f"TP {ways}" if ways > 1 else "", f"PP {stages}", f"DP {batch_ways}" if batch_ways > 1 else ""]
    return HandPlan(
        " x ".join(filter(None, names)),
        tuple(traffic.level_bytes),
        traffic.seconds,
        memory,
        is_in_space=False,
        idle_share=(stages - 1) / (samples + stages - 1),
    )
