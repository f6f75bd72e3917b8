"""What may be why claims of section 7 do not hold here: an experiment for each, as what is otherwise in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.evaluation.held_memory import Added, Freed
from benchmarks.evaluation.measure import FIGURE_10, RNNS, WRESNETS
from benchmarks.evaluation.measure import TABLE_3 as OF_TABLE_3
from benchmarks.evaluation.policies import (
    DEFAULT_PLACEMENT,
    DEFAULT_SWAPPING,
    OF_TENSORFLOW,
    Overlap,
    Placement,
)
from benchmarks.evaluation.swapping import Swapping
from tofu.simulation.machine import Machine

PEER_BANDWIDTH, HOST_BANDWIDTH = 21e9, 10e9  # section 7.1
WORKSPACE = 1 << 30  # what a convolution of MXNet may take at most, where nothing else is said
SMALL_BATCHES, OVER_TOFU = "WResNets that fit", "small batch over Tofu"
SWAPPED, SWAPPED_RNNS = "swapping's part", "the same, RNNs of 8K"
PLACED, TABLE_3, FIGURE_10_MEMORY = "placement's part", "Table 3", ("allrow-greedy on", "icml18 on")
ORDER = "RNN-4-8K, seconds"
PRODUCTS, CONVOLUTIONS = (name for name, _ in FIGURE_10)


@dataclass(frozen=True)
class Change:
    """What is otherwise in one experiment.

    Attributes
    ----------
    claims
        How the claims begin that this may explain.
    policies
        The ways to train that this changes.
    models
        Those that these claims are about.
    plans
        The model of Figure 10 whose plans this changes, if any.
    machine
        The changed machine, of the machine.
    freed
        The rule of a memory planner for whole devices and for workers; None: the frameworks' own.
    rereads
        Every operator fetches for itself what operators of one group else share.
    """

    name: str
    claims: tuple[str, ...]
    policies: tuple[str, ...]
    models: tuple[str, ...]
    machine: Callable[[Machine], Machine] = lambda machine: machine
    freed: Freed | None = None
    rereads: bool = False
    swapping: Swapping = DEFAULT_SWAPPING
    placement: Placement = DEFAULT_PLACEMENT
    of_tensorflow: Placement = OF_TENSORFLOW
    plans: str = ""


def _share_links(machine: Machine, bandwidth: float) -> Machine:
    return replace(machine, links=tuple(replace(link, shared=bandwidth) for link in machine.links))


def _forget_shapes(machine: Machine) -> Machine:
    return replace(machine, rates=replace(machine.rates, units=0))


# Weights, gradients and histories of the other WResNets alone are more than a device's memory, see Table 2.
FITTING = "wresnet-50-4", "wresnet-50-6", "wresnet-101-4", "wresnet-152-4"
LARGEST_RNNS = tuple(name for name in RNNS if name.endswith("8k"))
SWAPPING = *WRESNETS, *LARGEST_RNNS
OF_FETCHES = Freed.FETCHED_APART, Freed.FETCHED_AFTER_PHASE, Freed.FETCHED_AT_END
COMPARED = "wresnet-50-4", "wresnet-101-4"
PLACING = DEFAULT_PLACEMENT.name, OF_TENSORFLOW.name
CHANGES = (
    *(
        Change(
            f"memory is free {freed.value}",
            FIGURE_10_MEMORY if freed in OF_FETCHES else (SMALL_BATCHES, *FIGURE_10_MEMORY),
            () if freed in OF_FETCHES else ("small batch",),
            FITTING,
            freed=freed,
            plans=CONVOLUTIONS,
        )
        for freed in Freed
    ),
    Change(
        "a convolution's workspace of 1 GiB is set aside",
        (SMALL_BATCHES, *FIGURE_10_MEMORY),
        ("small batch",),
        FITTING,
        lambda machine: replace(machine, reserved_bytes=machine.reserved_bytes + WORKSPACE),
        plans=CONVOLUTIONS,
    ),
    Change(
        "all devices read each other through one switch of 21 GB/s",
        (OVER_TOFU, ORDER),
        ("Tofu",),
        COMPARED,
        partial(_share_links, bandwidth=PEER_BANDWIDTH),
        plans=PRODUCTS,
    ),
    Change(
        "all devices read each other through the host, 10 GB/s",
        (OVER_TOFU, ORDER),
        ("Tofu",),
        COMPARED,
        partial(_share_links, bandwidth=HOST_BANDWIDTH),
        plans=PRODUCTS,
    ),
    Change(
        "a device does not compute while it fetches",
        (OVER_TOFU, ORDER),
        ("Tofu",),
        COMPARED,
        lambda machine: replace(machine, fetches_overlap=False),
        plans=PRODUCTS,
    ),
    Change("each time step fetches weights for itself", (ORDER,), (), (), rereads=True, plans=PRODUCTS),
    Change("kernels are as efficient in all shapes", (ORDER,), (), (), _forget_shapes, plans=PRODUCTS),
    Change("swapping prefetches nothing", (SWAPPED, SWAPPED_RNNS), ("swapping",), SWAPPING, swapping=Swapping(ahead=0)),
    Change(
        "swapping prefetches for one kernel",
        (SWAPPED, SWAPPED_RNNS),
        ("swapping",),
        SWAPPING,
        swapping=Swapping(ahead=1),
    ),
    Change(
        "swapping takes the largest batch that runs, not the fastest",
        (SWAPPED, SWAPPED_RNNS),
        ("swapping",),
        SWAPPING,
        swapping=Swapping(takes_largest=True),
    ),
    Change(
        "swapping makes room by the farthest next use",
        (SWAPPED, SWAPPED_RNNS),
        ("swapping",),
        SWAPPING,
        swapping=Swapping(knows_next_use=True),
    ),
    Change(
        "kernels that use the same weight run one after the other",
        (SWAPPED_RNNS,),
        ("swapping",),
        LARGEST_RNNS,
        swapping=Swapping(reuses=True),
    ),
    Change(
        "room is made by the farthest next use, and kernels that use the same weight run one after the other",
        (SWAPPED_RNNS,),
        ("swapping",),
        LARGEST_RNNS,
        swapping=Swapping(reuses=True, knows_next_use=True),
    ),
    Change(
        "the host is written while it is read",
        (SWAPPED, SWAPPED_RNNS),
        ("swapping",),
        SWAPPING,
        swapping=Swapping(is_duplex=True),
    ),
    Change(
        "these two, and the host is written while it is read",
        (SWAPPED_RNNS,),
        ("swapping",),
        LARGEST_RNNS,
        swapping=Swapping(reuses=True, knows_next_use=True, is_duplex=True),
    ),
    Change(
        "each device has the host's 10 GB/s for itself",
        (SWAPPED, SWAPPED_RNNS),
        ("swapping",),
        SWAPPING,
        lambda machine: machine.scale("host", machine.devices),
    ),
    *(
        Change(
            name,
            (PLACED, TABLE_3),
            PLACING,
            RNNS,
            placement=replace(DEFAULT_PLACEMENT, **changed),
            of_tensorflow=replace(OF_TENSORFLOW, **changed),
        )
        for name, changed in (
            ("pipelines of layers never idle", {"overlap": Overlap.FULL}),
            ("layers run one after the other", {"overlap": Overlap.NONE}),
            ("on placed layers nothing shares memory", {"freed": Freed.AT_END}),
            ("placed layers take batches of 128", {"largest_batch": 128}),
        )
    ),
    Change(
        "TensorFlow adds all gradients of a weight at once",
        tuple(f"{TABLE_3}, samples per second, {name}, placement in TensorFlow" for name in OF_TABLE_3),
        (OF_TENSORFLOW.name,),
        OF_TABLE_3,
        of_tensorflow=replace(OF_TENSORFLOW, added=Added.TOGETHER),
    ),
)
