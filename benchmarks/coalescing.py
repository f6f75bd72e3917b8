"""Coarsening: nodes, groups, signatures and the time of each stage, from shapes alone.

    python -m benchmarks.coalescing

WResNet-152-10 and RNN-10-8K of the paper (section 7.1: 10 layers of LSTM of 8,192 cells, batch 128, 512 features, 20 steps), a
smaller stack, and each stack unrolled over a single step: coalescing should leave no more groups than that, short of what joins the
steps. Nodes are those of the training graph, forward and backward; groups, classes and signatures those of the search, which has
lowered operators in parts. Stages are the passes of the pipeline (tofu/pipeline.py), each model in a process of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import click
from rich.console import Console
from rich.table import Table

import tofu  # noqa: F401  before MXNet
from tests.models.paper import Model, build_model, rnn
from tests.shared.stages import Stages, run_cold
from tofu.mxnet.planning import plan_task
from tofu.plan import format_bytes
from tofu.planning.settings import Settings

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


def measure(build: Callable[[], Model], workers: int) -> tuple[dict[str, str], dict[str, float]]:
    """Sizes of one model, and the seconds of all passes of the pipeline, with the recursive search."""
    model = build()
    stages = Stages()
    task = model.read(Settings(workers, algorithm="recursive", cache=False), stages)
    coarse = stages("coarse problem", task.problem.coarse)
    plan = plan_task(task, observe=stages).plan
    graph = task.problem.graph
    sizes = (
        len(task.source.graph.operators),
        len(graph.operators),
        len(graph.tensors),
        len({coarse.choice_root(o) for o in range(len(graph.operators))}),
        len({coarse.tensor_class(t) for t in range(len(graph.tensors))}),
        len({id(access) for access in task.problem.accesses}),
    )
    texts = (
        *(f"{size:,}" for size in sizes),
        format_bytes(plan.communication_bytes),
        format_bytes(max(plan.worker_bytes)),
    )
    return dict(zip(SIZES, texts, strict=True)), stages.seconds


@click.command(help=__doc__)
@click.option("--workers", default=8, show_default=True)
@click.option("--layers", default="2,10", show_default=True, help="Numbers of LSTM layers, comma separated.")
@click.option("--hidden", default=8192, show_default=True)
@click.option("--time-steps", default="1,20", show_default=True, help="Numbers of unrolled steps, comma separated.")
def main(workers: int, layers: str, hidden: int, time_steps: str) -> None:
    cases = [(int(depth), int(steps)) for depth in layers.split(",") for steps in time_steps.split(",")]
    models = {"WResNet-152-10": partial(build_model, "wresnet-152-10", BATCH)} | {
        f"RNN-{depth}, {steps} step{'s' if steps > 1 else ''}": partial(rnn, depth, hidden, time_steps=steps)
        for depth, steps in cases
    }
    measured = {name: run_cold(measure, build, workers) for name, build in models.items()}
    sizes = Table("", *measured, title=f"{workers} workers, {hidden} cells")
    for name in SIZES:
        sizes.add_row(name, *(found[name] for found, _ in measured.values()))
    seconds = Table("seconds", *measured, title="Stages")
    _, stages = next(iter(measured.values()))
    for name in stages:
        seconds.add_row(name, *(f"{found[name]:.2f}" for _, found in measured.values()))
    seconds.add_row("all", *(f"{sum(found.values()):.2f}" for _, found in measured.values()))
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(sizes)
    console.print(seconds)


if __name__ == "__main__":
    main()
