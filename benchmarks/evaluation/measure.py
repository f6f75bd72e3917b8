"""The figures of section 7: every model under every way to train, and the partition algorithms, on one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.evaluation.policies import (
    DEVICES,
    STATES,
    Build,
    Outcome,
    run_ideal,
    run_partitioned,
    run_placement,
    run_small_batch,
    run_swapping,
)
from benchmarks.models.by_name import build_model
from tofu.errors import TofuError
from tofu.mxnet.partition import plan_task
from tofu.planning.settings import Settings
from tofu.simulation.machine import Machine
from tofu.simulation.simulate import simulate, simulate_partition

IDEAL_BATCH = {"wresnet": 128, "rnn": 512}
WRESNETS = tuple(f"wresnet-{layers}-{width}" for layers in (50, 101, 152) for width in (4, 6, 8, 10))
RNNS = tuple(f"rnn-{layers}-{cells}k" for cells in (4, 6, 8) for layers in (6, 8, 10))
BATCHES = {"wresnet": (128, 64, 32, 16, 8), "rnn": (512, 256, 128)}  # of Tofu and placement, the largest first
SMALL = {"wresnet": (64, 32, 16, 8, 4, 2, 1), "rnn": (512, 256, 128, 64, 32, 16, 8)}  # of one device
ALGORITHMS = ("allrow-greedy", "spartan", "equalchop", "icml18", "recursive", "exact")
FIGURE_10 = (("rnn-4-8k", 512), ("wresnet-152-10", 8))


def build_named(name: str) -> Build:
    """A model of the paper at any batch."""
    return lambda batch: build_model(name, batch)


def list_policies(name: str, machine: Machine) -> Iterator[Callable[[], Outcome]]:
    """The ways to train a model, in the order of the figures."""
    family = name.split("-")[0]
    build, batches, small = build_named(name), BATCHES[family], SMALL[family]
    yield lambda: run_ideal(build, IDEAL_BATCH[family], machine)
    yield lambda: run_small_batch(build, small, machine)
    yield lambda: run_swapping(build, small[:4], machine)
    if family == "rnn":
        yield lambda: run_placement(build, batches, machine)
    yield lambda: run_partitioned(build, batches, machine)


def measure_model(name: str, machine: Machine) -> list[Outcome]:
    """All ways to train one model."""
    return [run() for run in list_policies(name, machine)]


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


def measure_algorithms(machine: Machine, models: Sequence[tuple[str, int]] = FIGURE_10) -> Iterator[Planned]:
    """Figure 10: the same models under each algorithm."""
    for name, batch in models:
        for algorithm in ALGORITHMS:
            settings = Settings(workers=DEVICES, algorithm=algorithm, cache=False)
            try:
                partition = plan_task(build_model(name, batch).read(settings))
            except TofuError as error:
                yield Planned(name, algorithm, 0.0, 0.0, 0, False, str(error).split(". ")[0])
                continue
            found = simulate_partition(partition, machine, STATES)
            computing = simulate(partition.whole_step, machine, states=STATES, with_fetches=False).seconds
            yield Planned(name, algorithm, found.seconds, computing, max(found.worker_bytes), found.fits)
