"""Coarsening: nodes, groups, signatures and the time of each stage, from shapes alone.

    python -m benchmarks.coalescing

WResNet-152-10 and RNN-10-8K of the paper (section 7.1: 10 layers of LSTM of 8,192 cells, batch 128, 512 features, 20 steps), a
smaller stack, and each stack unrolled over a single step: coalescing should leave no more groups than that, short of what joins the
steps. Nodes are those of the training graph, forward and backward; groups, classes and signatures those of the search, which has
lowered operators in parts.
"""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.table import Table

import tofu  # noqa: F401  before MXNet
from benchmarks.models import Model, build_model, rnn
from benchmarks.stages import Stages
from tofu.lowering import lower, settle
from tofu.mxnet.backend import build_execution_graph
from tofu.mxnet.backend.buffers import plan_worker_bytes
from tofu.mxnet.engine import MXNET
from tofu.mxnet.frontend.read_symbol import find_labels, read_graph
from tofu.plan import format_bytes
from tofu.program import write_program
from tofu.search import factorize, find_strategies, pose_problem
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import evaluate

SIZES = (
    "nodes",
    "operators searched",
    "tensors",
    "operator groups",
    "tensor classes",
    "signatures",
    "bytes per step",
    "memory per worker",
)
BATCH = 8  # of WResNet
STAGES = (
    "read graph, lower",
    "strategies",
    "equal parts, native graph",
    "coarse graph",
    "search",
    "price",
    "settle, emit",
    "memory plan",
)


def measure(model: Model, workers: int) -> tuple[dict[str, str], dict[str, float]]:
    """Sizes and seconds of one model, through every stage up to the execution graph."""
    given = {*model.shapes, *find_labels(model.symbol)}
    learned = [name for name in model.symbol.list_arguments() if name not in given]
    stages = Stages()
    source = stages.run(STAGES[0], lambda: read_graph(model.symbol, model.shapes, None, learned, learned))
    graph = stages.run(STAGES[0], lambda: lower(source.graph))
    accesses = stages.run(STAGES[1], lambda: find_strategies(graph, MXNET.front_end))
    problem = stages.run(STAGES[2], lambda: pose_problem(graph, accesses, factorize(workers)))
    coarse = stages.run(STAGES[3], lambda: problem.coarse)
    choices = stages.run(STAGES[4], lambda: ALGORITHMS["recursive"].solve(problem).choices)
    cost = stages.run(STAGES[5], lambda: evaluate(problem, choices))
    settled = stages.run(STAGES[6], lambda: settle(source.graph, problem, choices, MXNET.front_end))
    program = stages.run(STAGES[6], lambda: write_program(settled.problem, settled.choices))
    execution = stages.run(STAGES[6], lambda: build_execution_graph(source, settled.problem, settled.choices, program))
    held = stages.run(STAGES[7], lambda: plan_worker_bytes(settled.problem, settled.choices, execution))
    sizes = (
        len(source.graph.operators),
        len(graph.operators),
        len(graph.tensors),
        len({coarse.choice_root(o) for o in range(len(graph.operators))}),
        len({coarse.tensor_class(t) for t in range(len(graph.tensors))}),
        len({id(access) for access in accesses}),
    )
    texts = (*(f"{size:,}" for size in sizes), format_bytes(cost.total_bytes), format_bytes(max(held)))
    return dict(zip(SIZES, texts, strict=True)), stages.seconds


@click.command(help=__doc__)
@click.option("--workers", default=8, show_default=True)
@click.option("--layers", default="2,10", show_default=True, help="Numbers of LSTM layers, comma separated.")
@click.option("--hidden", default=8192, show_default=True)
@click.option("--time-steps", default="1,20", show_default=True, help="Numbers of unrolled steps, comma separated.")
def main(workers: int, layers: str, hidden: int, time_steps: str) -> None:
    cases = [(int(depth), int(steps)) for depth in layers.split(",") for steps in time_steps.split(",")]
    measured = {"WResNet-152-10": measure(build_model("wresnet-152-10", BATCH), workers)}
    measured |= {
        f"RNN-{depth}, {steps} step{'s' if steps > 1 else ''}": measure(rnn(depth, hidden, time_steps=steps), workers)
        for depth, steps in cases
    }
    sizes = Table("", *measured, title=f"{workers} workers, {hidden} cells")
    for name in SIZES:
        sizes.add_row(name, *(found[name] for found, _ in measured.values()))
    seconds = Table("seconds", *measured, title="Stages")
    for name in STAGES:
        seconds.add_row(name, *(f"{found[name]:.2f}" for _, found in measured.values()))
    seconds.add_row("all", *(f"{sum(found.values()):.2f}" for _, found in measured.values()))
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(sizes)
    console.print(seconds)


if __name__ == "__main__":
    main()
