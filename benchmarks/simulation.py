"""Accuracy of the simulation: predicted and measured times of training steps on this machine.

\b
    python -m benchmarks.simulation
    python -m benchmarks.simulation --machine machine.json --rounds 5 --output results.json

First, the machine is calibrated with other models (`python -m tofu calibrate`), or read from a file. A configuration is
a model, a number of workers and a plan. It runs in a separate process, with one thread for each worker. A step is
forward, backward and an update by SGD with momentum. "Fetches" is the share of a step that disappears if fetches move
nothing (TOFU_SKIP_FETCH=1, as in section 7.3 of the paper).

The simulation must beat two simple predictions: the measured time of one device, and this time divided by the
processors in use. Kendall's tau measures if pairs of configurations are predicted in the right order. It counts pairs
whose times differ by more than their spread.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import median

import click
import mxnet as mx
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tofu
from benchmarks.beside_mxnet import perceptron, time_steps
from tests.models.paper import PaperModel, rnn, transformer, wresnet
from tests.shared.isolation import run_cold
from tests.shared.random_plans import random_plan
from tofu.mxnet.calibration.calibrate import calibrate
from tofu.mxnet.planning import plan_task
from tofu.plan import Plan
from tofu.planning.settings import Settings
from tofu.simulation.machine import read_machine
from tofu.simulation.simulate import simulate, simulate_one_device

MOST_MEDIAN = 0.15
MOST_WORST = 0.35
LEAST_TAU = 0.7
LEAST_FETCH = 0.3


MODELS: Mapping[str, Callable[[], PaperModel]] = {
    "MLP 2048, batch 64": lambda: perceptron(64, 2048, 4, 64),
    "MLP 1024, batch 8": lambda: perceptron(8, 1024, 4, 64),
    "MLP 1024, batch 64": lambda: perceptron(64, 1024, 4, 64),
    "MLP 1024, batch 256": lambda: perceptron(256, 1024, 4, 64),
    "WResNet-50, batch 8": lambda: wresnet(50, 1, 8, image=128, classes=64),
    "WResNet-50 narrow, batch 16": lambda: wresnet(50, 1, 16, image=64, classes=64, base=32),
    "RNN 2 x 768, batch 32": lambda: rnn(2, 768, 32, time_steps=5, features=256, classes=128),
    "RNN 1 x 512, batch 128": lambda: rnn(1, 512, 128, time_steps=6, features=256, classes=128),
    "Transformer 2 x 256": lambda: transformer(2, 256, 4, 4, length=128, vocabulary=1024),
}
BY_BATCH = "by batch, weights split"  # like fully sharded data parallelism: every worker fetches all weights
CONFIGURATIONS: Sequence[tuple[str, int, str]] = [
    *((name, 1, "one device") for name in MODELS),
    *((name, 2, "exact") for name in MODELS),
    *((name, 4, "exact") for name in MODELS if name != "WResNet-50, batch 8"),
    ("MLP 2048, batch 64", 2, "data-parallel"),
    ("MLP 1024, batch 8", 2, "data-parallel"),
    ("MLP 1024, batch 8", 4, "data-parallel"),
    ("MLP 1024, batch 8", 4, "allrow-greedy"),
    ("MLP 1024, batch 256", 8, "recursive"),
    ("MLP 1024, batch 256", 4, "data-parallel"),
    ("WResNet-50, batch 8", 2, "data-parallel"),
    ("WResNet-50 narrow, batch 16", 4, "data-parallel"),
    ("RNN 1 x 512, batch 128", 4, "recursive"),
    ("Transformer 2 x 256", 4, "data-parallel"),
    ("Transformer 2 x 256", 2, "recursive"),
    *(("MLP 1024, batch 8", workers, BY_BATCH) for workers in (4, 8)),
    *(("MLP 1024, batch 64", workers, BY_BATCH) for workers in (4, 8)),
    ("MLP 1024, batch 256", 8, BY_BATCH),
    *(("MLP 1024, batch 64", 4, f"random {seed}") for seed in range(3)),
    *(("MLP 1024, batch 64", 8, f"random {seed}") for seed in range(2)),
    *(("RNN 1 x 512, batch 128", 4, f"random {seed}") for seed in range(2)),
    *(("Transformer 2 x 256", 4, f"random {seed}") for seed in range(2)),
]


@dataclass(frozen=True)
class SimulationRow:
    """Seconds of a step of one configuration, and the share that fetches take."""

    model: str
    workers: int
    plan: str
    predicted: float
    measured: float
    spread: float
    predicted_fetch: float
    measured_fetch: float

    @property
    def error(self) -> float:
        return abs(self.predicted - self.measured) / self.measured


def make_plan(model: PaperModel, workers: int, plan: str) -> Plan:
    base = Settings(workers=workers, cache=False)
    if plan == BY_BATCH:
        names = [f"fc{layer}" for layer in range(4)]
        hints = {
            **{f"{name}_weight": 0 for name in names},
            **{operator: "b" for name in names for operator in (name, f"{name}_backward")},
        }
        return plan_task(model.read(replace(base, hints=hints))).plan
    if plan.startswith("random"):
        return random_plan(plan_task(model.read(replace(base, algorithm="recursive"))), int(plan.split()[1]))
    return plan_task(model.read(replace(base, algorithm=plan))).plan


def predict(name: str, workers: int, plan: str, machine_file: str) -> tuple[float, float]:
    machine = read_machine(machine_file)
    model = MODELS[name]()
    if workers == 1:
        return simulate_one_device(model.read(Settings(workers=2)), machine).seconds, 0.0
    settings = Settings(workers=workers, plan=make_plan(model, workers, plan), cache=False)
    program = plan_task(model.read(settings)).program
    return simulate(program, machine).seconds, simulate(program, machine, with_fetches=False).seconds


def run_module(name: str, workers: int, plan: str, skips_fetches: bool = False) -> list[float]:
    if skips_fetches:
        os.environ["TOFU_SKIP_FETCH"] = "1"
    model = MODELS[name]()
    if workers == 1:
        return time_steps(model, partial(mx.mod.Module, model.symbol))
    contexts = [mx.cpu(worker) for worker in range(workers)]
    symbol = tofu.partition(model.symbol, contexts=contexts, plan=make_plan(model, workers, plan), cache=False)
    return time_steps(model, partial(tofu.mod.Module, symbol))


def measure(machine_file: str, rounds: int) -> list[SimulationRow]:
    steps: dict[int, list[float]] = {number: [] for number in range(len(CONFIGURATIONS))}
    skipped: dict[int, list[float]] = {number: [] for number in range(len(CONFIGURATIONS))}
    for _ in range(rounds):
        for number in track(steps, description="running", console=Console(stderr=True)):
            _, workers, _ = CONFIGURATIONS[number]
            steps[number] += run_cold(run_module, *CONFIGURATIONS[number])
            if workers > 1:
                skipped[number] += run_cold(run_module, *CONFIGURATIONS[number], True)
    rows = []
    for number, (name, workers, plan) in enumerate(CONFIGURATIONS):
        predicted, without = run_cold(predict, name, workers, plan, machine_file)
        took = median(steps[number])
        low, high = np.quantile(steps[number], [0.1, 0.9])
        gone = 1 - median(skipped[number]) / took if skipped[number] else 0.0
        fetched = 1 - without / predicted if without else 0.0
        rows.append(
            SimulationRow(name, workers, plan, predicted, took, float((high - low) / took), fetched, max(0.0, gone))
        )
    return rows


def count_tau(rows: Sequence[SimulationRow]) -> tuple[float, int]:
    """Return Kendall's tau over the pairs that differ by more than their spread, and the number of these pairs."""
    signs = []
    for a, b in combinations(rows, 2):
        if abs(a.measured - b.measured) > max(a.spread * a.measured, b.spread * b.measured):
            signs.append(np.sign((a.measured - b.measured) * (a.predicted - b.predicted)))
    return float(np.mean(signs)), len(signs)


def compare_plans(rows: Sequence[SimulationRow]) -> tuple[float, int]:
    by_model = [[row for row in rows if row.model == name] for name in MODELS]
    counted = [count_tau(own) for own in by_model if len(own) > 1]
    pairs = sum(count for _, count in counted)
    return sum(tau * count for tau, count in counted if count) / pairs, pairs


def show(rows: Sequence[SimulationRow]) -> bool:
    single = {row.model: row.measured for row in rows if row.workers == 1}
    processors = len(os.sched_getaffinity(0))
    table = Table(
        "model", "workers", "plan", "predicted ms", "measured ms", "spread", "error", "fetches predicted", "measured"
    )
    for row in rows:
        table.add_row(
            row.model,
            str(row.workers),
            row.plan,
            f"{1e3 * row.predicted:.1f}",
            f"{1e3 * row.measured:.1f}",
            f"{row.spread:.0%}",
            f"{row.predicted / row.measured - 1:+.0%}",
            f"{row.predicted_fetch:.0%}",
            f"{row.measured_fetch:.0%}",
        )
    console = Console(width=140)
    console.print(table)
    several = [row for row in rows if row.workers > 1]
    nulls = {
        "one device": [abs(single[row.model] / row.measured - 1) for row in several],
        "one device over processors": [
            abs(single[row.model] / min(processors, row.workers) / row.measured - 1) for row in several
        ],
    }
    middle, worst = median(row.error for row in rows), max(row.error - row.spread for row in rows)
    own = median(row.error for row in several)
    tau, pairs = count_tau(rows)
    plans, plan_pairs = compare_plans(rows)
    fetching = [row for row in several if min(row.predicted_fetch, row.measured_fetch) >= LEAST_FETCH]
    goals = [
        (f"median error of {len(rows)}", f"{middle:.1%}", f"at most {MOST_MEDIAN:.0%}", middle <= MOST_MEDIAN),
        ("worst error beyond the spread", f"{worst:.1%}", f"at most {MOST_WORST:.0%}", worst <= MOST_WORST),
        *(
            (
                f"of several workers {own:.1%}, null: {name}",
                f"{median(errors):.1%}",
                f"at least {2 * own:.1%}",
                median(errors) >= 2 * own,
            )
            for name, errors in nulls.items()
        ),
        (f"Kendall's tau of {pairs} pairs", f"{tau:.2f}", f"at least {LEAST_TAU}", tau >= LEAST_TAU),
        (f"of {plan_pairs} pairs of plans of one model", f"{plans:.2f}", f"at least {LEAST_TAU}", plans >= LEAST_TAU),
        ("over 30 % in fetches, both ways", str(len(fetching)), "at least 6", len(fetching) >= 6),
    ]
    for name, found, goal, is_met in goals:
        console.print(f"{'met   ' if is_met else 'MISSED'}  {name}: {found}, {goal}")
    return all(is_met for *_, is_met in goals)


@click.command(help=__doc__)
@click.option("--machine", "machine_file", type=click.Path(exists=True), help="Machine file of an earlier calibration.")
@click.option("--rounds", default=3, show_default=True, help="Runs of each configuration.")
@click.option("--output", type=click.Path(), help="File for the rows, as JSON.")
def main(machine_file: str | None, rounds: int, output: str | None) -> None:
    if machine_file is None:
        machine_file = "build/this-machine.json"
        Path(machine_file).parent.mkdir(exist_ok=True)
        Path(machine_file).write_text(json.dumps(calibrate(), indent=1))
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that train
    rows = measure(machine_file, rounds)
    if output is not None:
        Path(output).write_text(json.dumps([asdict(row) for row in rows], indent=1))
    sys.exit(not show(rows))


if __name__ == "__main__":
    main()
