"""Predicted memory of temporary arrays of JAX steps, compared with XLA's count, on one device and on several.

\b
    python -m benchmarks.jax_memory [--models nnx.perceptron,linen.resnet] [--workers 2,8]
    python -m benchmarks.jax_memory --models "MLP,Transformer block,LSTM 2x4,ResNet,12-layer Transformer,ResNet-50" --workers 8

XLA compiles each step with its state donated and without. A row is marked "missed" if the prediction is off by more than a
quarter and 1 KiB.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import click
from rich.console import Console
from rich.table import Table

from benchmarks.jax_compare import set_environment
from tests.shared.campaigns import choose_names

LARGEST = 0.25  # of XLA's count
LEAST = 1024  # bytes: smaller errors do not count


@dataclass(frozen=True)
class Count:
    """Temporary arrays of one step, in bytes. `workers` is 0 for `jax.jit` without Tofu."""

    workers: int
    is_donated: bool
    predicted: int
    compiled: int

    @property
    def is_missed(self) -> bool:
        return abs(self.predicted - self.compiled) > max(LARGEST * self.compiled, LEAST)


def count_model(name: str, workers: list[int]) -> Iterator[Count]:
    import jax

    import tofu.jax
    from tests.models.jax import load_models
    from tests.models.jax.language import MODELS, REAL_MODELS
    from tofu.jax.frontend.versions import in_double_precision
    from tofu.jax.memory import read_compiled

    with in_double_precision() if "." in name else nullcontext():
        if name in (sized := {**MODELS, **REAL_MODELS}):
            model = sized[name]()
            step, state, others = model.step, model.state, (model.data,)
        else:
            step, state, others = load_models()[name]("float32")
        for donated in ((), (0,)):
            for count in workers:
                made = tofu.jax.partition(step, count, (state, *others), donate_argnums=donated, search_seconds=2)
                report = made.memory_report(compile=True)
                assert report.compiled is not None
                yield Count(count, bool(donated), report.worker.temporaries_bytes, report.compiled.temporaries_bytes)
            if not hasattr(step, "lower"):  # otherwise, it has arguments that `jax.jit` refuses
                whole = read_compiled(jax.jit(step, donate_argnums=donated).lower(state, *others).compile())
                yield Count(0, bool(donated), report.one_device.temporaries_bytes, whole.temporaries_bytes)


@click.command(help=__doc__)
@click.option("--models", help="Names, separated by commas. By default, all.")
@click.option("--workers", default="2,8", show_default=True, help="Numbers of workers, separated by commas.")
def main(models: str | None, workers: str) -> None:
    counted = [int(count) for count in workers.split(",")]
    set_environment(max(counted), "cpu")
    from tests.models.jax import load_models
    from tests.models.jax.language import MODELS, REAL_MODELS

    table = Table("model", title="Temporaries, bytes")
    for column in ("workers", "predicted", "XLA's count", "ratio"):
        table.add_column(column, justify="right")
    table.add_column("")
    counts: list[Count] = []
    shown = Console(width=None if sys.stdout.isatty() else 140)
    known = {**load_models(), **MODELS, **REAL_MODELS}
    for name in choose_names(models, known) if models else load_models():
        for count in count_model(name, counted):
            counts.append(count)
            on = f"{count.workers or 'one device'}{', donated' if count.is_donated else ''}"
            ratio = f"{count.predicted / max(count.compiled, 1):.2f}"
            note = "missed" if count.is_missed else ""
            print(f"{name}, {on}: {ratio} of XLA's count", file=sys.stderr, flush=True)
            table.add_row(name, on, f"{count.predicted:,}", f"{count.compiled:,}", ratio, note)
    shown.print(table)
    missed = sum(count.is_missed for count in counts)
    shown.print(f"{missed} of {len(counts)} are missed.")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
