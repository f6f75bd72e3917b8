"""From a symbol to a bound executor and its first steps: seconds of each stage, and what the execution graph consists of.

    python -m benchmarks.emission --models RNN-10 --workers 8

Plans are those of the recursive search, or random ones: `--plans` of each model, for which medians are shown. Models are small in
everything but their number of operators. Stages are the passes of the pipeline (tofu/pipeline.py), then binding and two whole training
steps, each plan in a process of its own. Seconds are processor time, which other processes disturb least, for steps by the clock, too.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from types import SimpleNamespace
from typing import Any

import click
import mxnet as mx
import numpy as np
from rich.console import Console
from rich.table import Table

import tofu  # noqa: F401  before MXNet
from tests.models.paper import Model, bidirectional, rnn, transformer, wresnet
from tests.shared.random_plans import random_plan
from tests.shared.stages import Stages, run_cold
from tofu import _mxnet
from tofu.mxnet.planning import plan_task
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.planning.settings import Settings

MODELS: dict[str, Callable[[], Model]] = {
    "RNN-10": lambda: rnn(10, 64, 64, features=64, classes=64),
    "GRU": lambda: bidirectional(64, 16, classes=64),
    "WResNet-50": lambda: wresnet(50, 1, 16, image=32, classes=16, base=16),
    "Transformer-6": lambda: transformer(6, 64, 8, 16, length=16, vocabulary=64),
}
STEPS = ("first step", "second step")
EMISSION = ("restored", "program", "execution", "bind")  # from choices to an executor


@dataclass(frozen=True)
class Run:
    """Seconds of each stage, by the clock and of all processors, and the nodes of the execution graph by operator."""

    seconds: dict[str, float]
    processor_seconds: dict[str, float]
    nodes: Counter[str]


def run_once(name: str, workers: int, seed: int | None) -> Run:
    """All stages of one model; the plan of the search, or a random one."""
    model = MODELS[name]()
    stages = Stages()
    task = model.read(Settings(workers, algorithm="recursive", cache=False), stages)
    if seed is not None:
        drawn = SimpleNamespace(
            searched=SimpleNamespace(problem=task.problem),
            graph=task.source.graph,
            plan=SimpleNamespace(workers=workers),
        )
        plan = stages("random plan", random_plan(drawn, seed))
        task = replace(task, settings=replace(task.settings, plan=plan))
    partition = plan_task(task, observe=stages)
    executor = stages("bind", ShardedExecutor(partition, [mx.cpu(worker) for worker in range(workers)]))
    stages("fill", fill(executor))
    for step in STEPS:
        stages(step, run_step(executor))
    nodes = Counter(node["op"] for node in _mxnet.nodes(partition.training.symbol.handle.value))
    return Run(stages.seconds, stages.processor_seconds, nodes)


def fill(executor: ShardedExecutor) -> None:
    """Small random numbers everywhere."""
    rng = np.random.RandomState(0)
    for variable in executor.variables.values():
        variable.scatter(rng.uniform(0, 0.1, variable.shape))


def run_step(executor: ShardedExecutor) -> None:
    """One training step, to its end."""
    executor.forward(is_train=True)
    executor.backward()
    mx.nd.waitall()


def summarise(runs: list[Run], operators: int) -> dict[str, str]:
    """Medians over the runs, and the graph of the last one."""
    column = {
        stage: f"{median(run.processor_seconds[stage] for run in runs):.2f}" for stage in runs[0].processor_seconds
    }
    column |= {f"{step}, clock": f"{median(run.seconds[step] for run in runs):.2f}" for step in STEPS}
    emission = [sum(run.processor_seconds[stage] for stage in EMISSION) for run in runs]
    column[" + ".join(EMISSION)] = f"{median(emission):.2f}"
    nodes = runs[-1].nodes
    column["nodes"] = f"{nodes.total():,}"
    return column | {f"  {op}": f"{count:,}" for op, count in nodes.most_common(operators)}


def print_columns(columns: dict[str, dict[str, str]]) -> None:
    """One table for each number of rows: operators differ between models."""
    for name, column in columns.items():
        table = Table("", name)
        for row, cell in column.items():
            table.add_row(row, cell)
        Console().print(table)


@click.command(help=__doc__)
@click.option("--models", default=",".join(MODELS), show_default=True, help="Models, comma separated.")
@click.option("--workers", default="8", show_default=True, help="Numbers of workers, comma separated.")
@click.option("--plans", default=0, show_default=True, help="Random plans, in place of the search's.")
@click.option("--operators", default=10, show_default=True, help="How many operators to count the nodes of.")
def main(models: str, workers: str, plans: int, operators: int) -> None:
    columns: dict[str, dict[str, Any]] = {}
    for name in models.split(","):
        for count in map(int, workers.split(",")):
            seeds = list(range(plans)) or [None]
            runs = [run_cold(run_once, name, count, seed) for seed in seeds]
            columns[f"{name}, {count} workers"] = summarise(runs, operators)
    print_columns(columns)


if __name__ == "__main__":
    main()
