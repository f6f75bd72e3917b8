"""Figures 8 to 10: every model trained in every way, and the partition algorithms, on one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.evaluation.policies import (
    STATES,
    PolicyOutcome,
    Programs,
    run_ideal,
    run_partitioned,
    run_placement,
    run_small_batch,
    run_swapping,
)
from tests.models.paper.by_name import build_model
from tofu.errors import TofuError
from tofu.simulation.machine import Machine
from tofu.simulation.simulate import simulate

WRESNETS = tuple(f"wresnet-{layers}-{width}" for layers in (50, 101, 152) for width in (4, 6, 8, 10))
RNNS = tuple(f"rnn-{layers}-{units}k" for units in (4, 6, 8) for layers in (6, 8, 10))
IDEAL_BATCH = {"wresnet": 128, "rnn": 512}
BATCHES = {"wresnet": (128, 64, 32, 16, 8), "rnn": (512, 256, 128)}  # of Tofu and placement, the largest first
SMALL_BATCHES = {"wresnet": (64, 32, 16, 8, 4, 2, 1), "rnn": (512, 256, 128, 64, 32, 16, 8)}  # of one device
ALGORITHMS = ("allrow-greedy", "spartan", "equalchop", "icml18", "recursive", "exact")
FIGURE_10 = (("rnn-4-8k", 512), ("wresnet-152-10", 8))


def read_model(name: str) -> Programs:
    return Programs(name, lambda batch: build_model(name, batch))


def measure_model(name: str, machines: Sequence[Machine]) -> list[list[PolicyOutcome]]:
    programs, family = read_model(name), name.split("-")[0]
    batches, small_batches = BATCHES[family], SMALL_BATCHES[family]
    outcomes = []
    for machine in machines:
        ways = [
            run_ideal(programs, IDEAL_BATCH[family], machine),
            run_small_batch(programs, small_batches, machine),
            run_swapping(programs, small_batches[:4], machine),
        ]
        if family == "rnn":
            ways.append(run_placement(programs, batches, machine))
        outcomes.append([*ways, run_partitioned(programs, batches, machine)])
    return outcomes


@dataclass(frozen=True)
class AlgorithmResult:
    """A bar of Figure 10: seconds of a step, seconds without communication, and memory."""

    model: str
    algorithm: str
    seconds: float
    computing: float
    needed_bytes: int
    fits: bool
    refusal: str = ""

    @property
    def overhead(self) -> float:
        return 1 - self.computing / self.seconds if self.seconds else 0.0


def measure_algorithms(machines: Sequence[Machine]) -> list[list[AlgorithmResult]]:
    results: list[list[AlgorithmResult]] = [[] for _ in machines]
    for name, batch in FIGURE_10:
        programs = read_model(name)
        for algorithm in ALGORITHMS:
            for machine, own in zip(machines, results, strict=True):
                own.append(_measure_algorithm(programs, batch, algorithm, machine))
    return results


def _measure_algorithm(programs: Programs, batch: int, algorithm: str, machine: Machine) -> AlgorithmResult:
    planned = programs.partition(batch, algorithm)
    if isinstance(planned, TofuError):
        return AlgorithmResult(programs.model, algorithm, 0.0, 0.0, 0, False, str(planned).split(". ")[0])
    program, needed = planned
    seconds, computing = (
        simulate(program, machine, states=STATES, with_fetches=with_fetches).seconds for with_fetches in (True, False)
    )
    fits = max(needed) <= machine.usable_bytes
    return AlgorithmResult(programs.model, algorithm, seconds, computing, max(needed), fits)
