"""The figures of section 7: every model under every way to train, and the partition algorithms, on one machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.evaluation.policies import (
    DEFAULT_PLACEMENT,
    DEFAULT_SWAPPING,
    OF_TENSORFLOW,
    Outcome,
    Placement,
    run_ideal,
    run_partitioned,
    run_placement,
    run_small_batch,
    run_swapping,
)
from benchmarks.evaluation.programs import STATES, Programs
from benchmarks.evaluation.swapping import Swapping
from tests.models.paper.by_name import build_model
from tofu.errors import TofuError
from tofu.simulation.machine import Machine
from tofu.simulation.simulate import simulate

IDEAL_BATCH = {"wresnet": 128, "rnn": 512}
WRESNETS = tuple(f"wresnet-{layers}-{width}" for layers in (50, 101, 152) for width in (4, 6, 8, 10))
RNNS = tuple(f"rnn-{layers}-{cells}k" for cells in (4, 6, 8) for layers in (6, 8, 10))
BATCHES = {"wresnet": (128, 64, 32, 16, 8), "rnn": (512, 256, 128)}  # of Tofu and placement, the largest first
SMALL = {"wresnet": (64, 32, 16, 8, 4, 2, 1), "rnn": (512, 256, 128, 64, 32, 16, 8)}  # of one device
ALGORITHMS = ("allrow-greedy", "spartan", "equalchop", "icml18", "recursive", "exact")
TABLE_3 = ("rnn-6-4k", "rnn-8-4k", "rnn-10-4k")  # placed by TensorFlow too
FIGURE_10 = (("rnn-4-8k", 512), ("wresnet-152-10", 8))


def read_model(name: str) -> Programs:
    """A model of the paper."""
    return Programs(name, lambda batch: build_model(name, batch))


def list_policies(
    name: str,
    machine: Machine,
    programs: Programs,
    swapping: Swapping = DEFAULT_SWAPPING,
    placement: Placement = DEFAULT_PLACEMENT,
    of_tensorflow: Placement = OF_TENSORFLOW,
) -> dict[str, Callable[[], Outcome]]:
    """The ways to train a model, in the order of the figures, by name."""
    family = name.split("-")[0]
    batches, small = BATCHES[family], SMALL[family]
    found = {
        "ideal": lambda: run_ideal(programs, IDEAL_BATCH[family], machine),
        "small batch": lambda: run_small_batch(programs, small, machine),
        "swapping": lambda: run_swapping(programs, small[:4], machine, swapping),
    }
    if family == "rnn":
        found[placement.name] = lambda: run_placement(programs, batches, machine, placement)
    if name in TABLE_3:
        found[of_tensorflow.name] = lambda: run_placement(programs, batches, machine, of_tensorflow)
    return {**found, "Tofu": lambda: run_partitioned(programs, batches, machine)}


def measure_model(name: str, machines: Sequence[Machine]) -> list[list[Outcome]]:
    """All ways to train one model, on each machine."""
    programs = read_model(name)
    return [[run() for run in list_policies(name, machine, programs).values()] for machine in machines]


@dataclass(frozen=True)
class Planned:
    """A plan of one algorithm for Figure 10: seconds of a step, those without any communication, and whether it fits."""

    model: str
    algorithm: str
    seconds: float
    computing: float
    needed_bytes: int
    fits: bool
    refusal: str = ""

    @property
    def overhead(self) -> float:
        """The part of a step that is communication."""
        return 1 - self.computing / self.seconds if self.seconds else 0.0


def measure_algorithms(
    machines: Sequence[Machine], models: Sequence[tuple[str, int]] = FIGURE_10
) -> list[list[Planned]]:
    """Figure 10: the same models under each algorithm, on each machine."""
    measured: list[list[Planned]] = [[] for _ in machines]
    for name, batch in models:
        programs = read_model(name)
        for algorithm in ALGORITHMS:
            for machine, planned in zip(machines, measured, strict=True):
                planned.append(measure_algorithm(programs, batch, algorithm, machine))
    return measured


def measure_algorithm(programs: Programs, batch: int, algorithm: str, machine: Machine) -> Planned:
    """One bar of Figure 10."""
    planned = programs.partition(batch, algorithm)
    if isinstance(planned, TofuError):
        return Planned(programs.model, algorithm, 0.0, 0.0, 0, False, str(planned).split(". ")[0])
    program, needed = planned
    seconds, computing = (
        simulate(program, machine, states=STATES, with_fetches=with_).seconds for with_ in (True, False)
    )
    return Planned(programs.model, algorithm, seconds, computing, max(needed), max(needed) <= machine.usable_bytes)
