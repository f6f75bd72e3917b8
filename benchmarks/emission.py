"""From a symbol to a bound executor and its first steps: seconds of each stage, and what the execution graph consists of.

    python -m benchmarks.emission --models RNN-10 --workers 8

Plans are those of the recursive search, or random ones: `--plans` of each model, for which medians are shown. Models are small in
everything but their number of operators. Seconds are processor time, which other processes disturb least; "first step" and "second step"
are whole training steps, with the clock's seconds beside them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections import Counter
from collections.abc import Callable
from statistics import median
from types import SimpleNamespace
from typing import Any

import click
import mxnet as mx
import numpy as np
from rich.console import Console
from rich.table import Table

import tofu  # noqa: F401  before MXNet
from benchmarks.models import Model, bidirectional, rnn, transformer, wresnet
from benchmarks.shared.random_plans import random_plan
from benchmarks.stages import Stages
from tofu import _mxnet
from tofu.engine import Measured
from tofu.lowering import lower, settle
from tofu.mxnet.backend import build_execution_graph
from tofu.mxnet.backend.buffers import plan_buffers, plan_worker_bytes
from tofu.mxnet.engine import MXNET
from tofu.mxnet.frontend.read_symbol import find_labels, read_graph
from tofu.mxnet.runtime.sharded_executor import ShardedExecutor
from tofu.program import write_program
from tofu.search import factorize, find_strategies, pose_problem
from tofu.search.algorithms import ALGORITHMS
from tofu.search.hints import resolve_plan

MODELS: dict[str, Callable[[], Model]] = {
    "RNN-10": lambda: rnn(10, 64, 64, features=64, classes=64),
    "GRU": lambda: bidirectional(64, 16, classes=64),
    "WResNet-50": lambda: wresnet(50, 1, 16, image=32, classes=16, base=16),
    "Transformer-6": lambda: transformer(6, 64, 8, 16, length=16, vocabulary=64),
}
STEPS = ("first step", "second step")
EMISSION = ("settle", "emit", "bind")  # from choices to an executor


def run_once(model: Model, workers: int, seed: int | None) -> tuple[Stages, Counter[str]]:
    """All stages of one model; the plan of the search, or a random one."""
    stages = Stages()
    given = {*model.shapes, *find_labels(model.symbol)}
    learned = [name for name in model.symbol.list_arguments() if name not in given]
    source = stages.run("read graph", lambda: read_graph(model.symbol, model.shapes, None, learned, learned))
    graph = stages.run("lower", lambda: lower(source.graph))
    accesses = stages.run("strategies", lambda: find_strategies(graph, MXNET.front_end))
    searched = stages.run("problem", lambda: pose_problem(graph, accesses, factorize(workers)))
    if seed is None:
        found = stages.run("search", lambda: ALGORITHMS["recursive"].solve(searched).choices)
    else:
        drawn = SimpleNamespace(searched=searched, graph=source.graph, plan=SimpleNamespace(workers=workers))
        found = resolve_plan(searched, stages.run("search", lambda: random_plan(drawn, seed)))
    settled = stages.run("settle", lambda: settle(source.graph, searched, found, MXNET.front_end))
    problem, choices = settled.problem, settled.choices
    execution = stages.run(
        "emit", lambda: build_execution_graph(source, problem, choices, write_program(problem, choices))
    )
    planned = stages.run("memory plan", lambda: plan_buffers(problem, choices, execution))
    stages.run("worker bytes", lambda: plan_worker_bytes(problem, choices, execution, planned))
    stages.run("check", lambda: MXNET.backend.check(execution, problem, choices, Measured((), planned)))
    contexts = [mx.cpu(worker) for worker in range(workers)]
    partition = SimpleNamespace(graph=source.graph, problem=problem, choices=choices, training=execution)
    executor = stages.run("bind", lambda: ShardedExecutor(partition, contexts))
    fill(executor)
    for step in STEPS:
        stages.run(step, lambda: run_step(executor))
    return stages, Counter(node["op"] for node in _mxnet.nodes(execution.symbol.handle.value))


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


def summarise(runs: list[tuple[Stages, Counter[str]]], operators: int) -> dict[str, str]:
    """Medians over the runs, and the graph of the last one."""
    column = {
        stage: f"{median(stages.processor_seconds[stage] for stages, _ in runs):.2f}"
        for stage in runs[0][0].processor_seconds
    }
    column |= {f"{step}, clock": f"{median(stages.seconds[step] for stages, _ in runs):.2f}" for step in STEPS}
    emission = [sum(stages.processor_seconds[stage] for stage in EMISSION) for stages, _ in runs]
    column[" + ".join(EMISSION)] = f"{median(emission):.2f}"
    nodes = runs[-1][1]
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
            runs = [run_once(MODELS[name](), count, seed) for seed in seeds]
            columns[f"{name}, {count} workers"] = summarise(runs, operators)
    print_columns(columns)


if __name__ == "__main__":
    main()
