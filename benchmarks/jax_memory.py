"""Predicted temporaries of JAX steps beside XLA's own count, for every model of `jax_models`, on one device and on several.

    python -m benchmarks.jax_memory [--models nnx.perceptron,linen.resnet] [--workers 2,8]

XLA compiles each step, with its state donated and without. A step is missed by more than a quarter and 1 KiB where the last column says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import click
from rich.console import Console
from rich.table import Table

LARGEST = 0.25  # of XLA's count
LEAST = 1024  # bytes, which no more is asked of


@dataclass(frozen=True)
class Count:
    """Temporaries of one step, in bytes. `workers` is 0 for plain `jax.jit` on one device."""

    workers: int
    is_donated: bool
    predicted: int
    compiled: int

    @property
    def is_missed(self) -> bool:
        """Whether the prediction is further off than is asked."""
        return abs(self.predicted - self.compiled) > max(LARGEST * self.compiled, LEAST)


def count_model(name: str, workers: list[int]) -> Iterator[Count]:
    """The counts of a model: plain ones in single precision, others in double precision."""
    import jax

    import tofu.jax
    from benchmarks.jax_models import load_models
    from tofu.jax.frontend.versions import in_double_precision
    from tofu.jax.memory import read_compiled

    with in_double_precision() if "." in name else nullcontext():
        step, state, others = load_models()[name]("float32")
        for donated in ((), (0,)):
            for count in workers:
                made = tofu.jax.partition(step, count, (state, *others), donate_argnums=donated, search_seconds=2)
                report = made.memory_report(compile=True)
                assert report.compiled is not None
                yield Count(count, bool(donated), report.worker.temporaries_bytes, report.compiled.temporaries_bytes)
            if not hasattr(step, "lower"):  # else its functions and texts are no arguments of `jax.jit`
                whole = read_compiled(jax.jit(step, donate_argnums=donated).lower(state, *others).compile())
                yield Count(0, bool(donated), report.one_device.temporaries_bytes, whole.temporaries_bytes)


@click.command(help=__doc__)
@click.option("--models", help="Names, comma separated; all if none is said.")
@click.option("--workers", default="2,8", show_default=True, help="Numbers of workers, comma separated.")
def main(models: str | None, workers: str) -> None:
    """A row for each step."""
    from benchmarks.jax_models import load_models

    table = Table("model", title="Temporaries, bytes")
    for column in ("workers", "predicted", "XLA's count", "of it"):
        table.add_column(column, justify="right")
    table.add_column("")
    counts: list[Count] = []
    for name in models.split(",") if models else load_models():
        for one in count_model(name, [int(count) for count in workers.split(",")]):
            counts.append(one)
            on = f"{one.workers or 'one device'}{', donated' if one.is_donated else ''}"
            ratio = f"{one.predicted / max(one.compiled, 1):.2f}"
            missed = "missed" if one.is_missed else ""
            table.add_row(name, on, f"{one.predicted:,}", f"{one.compiled:,}", ratio, missed)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    console.print(f"{sum(one.is_missed for one in counts)} of {len(counts)} are missed.")


if __name__ == "__main__":
    main()
