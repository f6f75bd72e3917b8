"""The same numbers as one device, over many plans: prints the largest errors per model and worker count, and how often each
strategy of each operator took part.

    python benchmarks/equality.py --plans 50

Every run is checked: gradients, outputs and weights against one device in float64, the bytes that the kernels counted and the
bytes counted in the emitted graph against the plan's, and the emitted graph against the checker's rules.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import click
from models import MODELS
from normalized_models import NORMALIZED
from recurrent_models import RECURRENT_MODELS
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from training import (
    bind_partitioned,
    check_graph,
    largest_error,
    random_plan,
    random_values,
    relative_error,
    run_partitioned,
    run_single,
)

import tofu  # noqa: F401  before MXNet

ALL_MODELS = {**MODELS, **NORMALIZED, **{name: partial(make, "float64") for name, make in RECURRENT_MODELS.items()}}


@click.command(help=__doc__)
@click.option("--plans", default=50, show_default=True, help="Random plans for each model and number of workers.")
@click.option("--steps", default=20, show_default=True, help="Training steps of each run.")
@click.option("--models", default=",".join(ALL_MODELS), show_default=True, help="Models, comma separated.")
@click.option("--workers", default="2,3,4,6,8", show_default=True, help="Numbers of workers, comma separated.")
def main(plans: int, steps: int, models: str, workers: str) -> None:
    exercised: Counter[tuple[str, str]] = Counter()
    offered: set[tuple[str, str]] = set()
    errors = Table(
        "model", "workers", "plans", "default: bytes", "step error", "weight error", title="Against one device, float64"
    )
    counts = [int(count) for count in workers.split(",")]
    with Progress() as progress:
        task = progress.add_task("plans", total=len(models.split(",")) * len(counts) * (plans + 1))
        for name in models.split(","):
            model = ALL_MODELS[name]()
            values = random_values(model, "float64")
            step, weights = run_single(model, values, "float64", steps)
            for count in counts:
                default = bind_partitioned(model, count, "float64")
                step_error = weight_error = 0.0
                for seed in range(-1, plans):
                    plan = None if seed < 0 else random_plan(default.partition, seed)
                    executor = default if plan is None else bind_partitioned(model, count, "float64", plan)
                    check_graph(executor.partition)
                    found, found_weights, moved = run_partitioned(executor, values, steps)
                    if moved != executor.partition.plan.communication_bytes:
                        raise SystemExit(
                            f"{name}, {count} workers, plan {seed}: kernels read {moved} bytes, the plan says otherwise"
                        )
                    step_error = max(step_error, largest_error(found, step))
                    weight_error = max(weight_error, *(relative_error(found_weights[n], weights[n]) for n in weights))
                    count_strategies(executor.partition, exercised, offered)
                    progress.advance(task)
                cells = (f"{default.partition.plan.communication_bytes:,}", f"{step_error:.1e}", f"{weight_error:.1e}")
                errors.add_row(name, str(count), str(plans + 1), *cells)
    console = Console()
    console.print(errors)
    table = Table(
        "operator",
        "strategies: times exercised",
        title="Strategies taken by these plans, each counted once per operator and plan",
    )
    for op in sorted({op for op, _ in offered}):
        axes = sorted(axis for name, axis in offered if name == op)
        table.add_row(op, ", ".join(f"{axis}: {exercised[op, axis]}" for axis in axes))
    console.print(table)
    never = [f"{op}.{axis}" for op, axis in sorted(offered) if not exercised[op, axis]]
    console.print(
        f"{len(offered)} strategies offered, {len(never)} never exercised{': ' + ', '.join(never) if never else ''}"
    )


def count_strategies(partition, exercised, offered) -> None:
    """Count the axes that a plan's operators take, and note those that they could."""
    searched = partition.searched
    axes = {o.name: access.axes for o, access in zip(searched.graph.operators, searched.accesses, strict=True)}
    for operator in partition.graph.operators:
        offered.update((operator.op, axis) for axis in axes[operator.name])
        exercised.update({(operator.op, axis) for axis in partition.plan.operators[operator.name] if axis is not None})


if __name__ == "__main__":
    main()
