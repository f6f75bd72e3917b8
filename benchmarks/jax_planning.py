"""Seconds to plan a deep Transformer in JAX: tracing, reading, analysis and search.

    python -m benchmarks.jax_planning --layers 12 --layers 96 --workers 8 [--apart]
    python -m benchmarks.jax_planning --layers 12 --workers 3 --uneven none
    python -m benchmarks.jax_planning --layers 12 --scanned

The model has 1,024 units and trains by Adam. It is planned from shapes alone. Each run is a separate process. The times are processor
times, and medians of the runs. By default, repeated layers get the same splits, which makes the search faster; `--apart` also plans without
this, to show what it costs in bytes. `--uneven` is the argument of `tofu.jax.partition`. `--scanned` puts the layers into a `lax.scan`.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from statistics import median

import click
from rich.console import Console
from rich.table import Table

from tests.shared.stages import Stages, run_cold
from tofu.search.native import UNEVEN


@dataclass
class PlanningRun:
    """Number of equations, processor seconds, and properties of the plan.

    `held` is the share of the step's arguments that a worker holds.
    """

    equations: int
    tracing: float
    reading: float
    passes: dict[str, float] = field(default_factory=dict)
    moved_bytes: int = 0
    held: float = 1.0
    optimality: str = ""

    @property
    def planning(self) -> float:
        return sum(self.passes.values())


def plan_cold(
    layers: int, workers: int, replicate: str, uneven: str | None, is_scanned: bool, is_apart: bool
) -> PlanningRun:
    """Plan one step. Imports and first calls are not part of the times."""
    import jax

    from tests.models.jax.language import TRANSFORMER_SIZES, transformer
    from tofu.jax.engine import make_engine
    from tofu.jax.frontend.read_step import read_step
    from tofu.jax.planning import plan_step, read_settings
    from tofu.search import repeated_layers

    settings = read_settings(workers, {"replicate": replicate, "cache": False})
    engine = make_engine(uneven)
    small = transformer()
    plan_step(read_step(small.step, (small.state, small.data)), settings, Stages(), engine)
    if is_apart:
        repeated_layers.LEAST_OPERATORS = sys.maxsize
    model = transformer(layers, **TRANSFORMER_SIZES, is_scanned=is_scanned)
    arguments = model.state, model.data
    started = time.process_time()
    traced = jax.make_jaxpr(model.step)(*arguments)
    tracing = time.process_time() - started
    jax.clear_caches()
    started = time.process_time()
    source = read_step(model.step, arguments)
    run = PlanningRun(len(traced.jaxpr.eqns), tracing, time.process_time() - started - tracing)
    stages = Stages()
    plan = plan_step(source, settings, stages, engine).plan
    run.passes = stages.processor_seconds
    run.moved_bytes, run.optimality = plan.communication_bytes, plan.optimality
    argument_bytes = sum(tensor.size_bytes for tensor in source.graph.tensors if tensor.is_given)
    run.held = max(plan.worker_bytes) / argument_bytes
    return run


@click.command(help=__doc__)
@click.option("--layers", "depths", multiple=True, type=int, default=(1, 12, 24, 96), show_default=True)
@click.option("--workers", default=8, show_default=True)
@click.option("--replicate", type=click.Choice(("small", "free")), default="small", show_default=True)
@click.option("--uneven", type=click.Choice(UNEVEN))
@click.option("--runs", default=3, show_default=True)
@click.option("--scanned", is_flag=True, help="Put the layers into a loop.")
@click.option("--apart", is_flag=True, help="Also plan without recognizing repeated layers.")
def main(
    depths: tuple[int, ...],
    workers: int,
    replicate: str,
    uneven: str | None,
    runs: int,
    scanned: bool,
    apart: bool,
) -> None:
    table = Table(title=f"Planning Transformers for {workers} workers, replicate={replicate!r}: seconds of a processor")
    for name in (
        "layers",
        "equations",
        "JAX's tracing",
        "reading",
        "analysis + search",
        "search",
        "moved, GB",
        "held",
        "plan",
    ):
        table.add_column(name, justify="left" if name == "plan" else "right")
    for layers in depths:
        for is_apart in (False, True) if apart else (False,):
            runs_done = [
                run_cold(plan_cold, layers, workers, replicate, uneven, scanned, is_apart) for _ in range(runs)
            ]
            seconds = [
                median(seconds)
                for seconds in zip(
                    *((r.tracing, r.reading, r.planning, r.passes["selected"]) for r in runs_done), strict=True
                )
            ]
            table.add_row(
                f"{layers}{' apart' if is_apart else ''}",
                f"{runs_done[0].equations:,}",
                *(f"{each:.2f}" for each in seconds),
                f"{runs_done[0].moved_bytes / 1e9:.3f}",
                f"{runs_done[0].held:.1%}",
                runs_done[0].optimality,
            )
    Console(width=None if sys.stdout.isatty() else 190).print(table)


if __name__ == "__main__":
    main()
