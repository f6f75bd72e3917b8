"""Of how many programs JAX itself shows that what is whole on several devices is the same on all of them (`check_vma` of `jax.shard_map`).

    python -m benchmarks.jax_replicas [--models nnx.perceptron,linen.resnet] [--workers 2,4,8]

The programs are those of the searched plans of the models of `jax_models`, by `replicate="small"` and `"free"`. They are traced, not
compiled.
"""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.table import Table

from benchmarks.jax_compare import set_environment
from tests.shared.campaigns import choose_names

LEAST = 0.85  # of the programs on 2, 4 and 8 devices
REPLICATED = ("small", "free")


@click.command(help=__doc__)
@click.option("--models", help="Names, comma separated; all if none is said.")
@click.option("--workers", default="2,4,8", show_default=True, help="Numbers of workers, comma separated.")
def main(models: str | None, workers: str) -> None:
    """A row for each model."""
    counts = [int(count) for count in workers.split(",")]
    set_environment(max(counts), "cpu")
    import tofu.jax
    from tests.models.jax import load_models
    from tofu.jax.frontend.versions import in_double_precision

    table = Table("model", title="Programs whose replicas JAX has checked")
    for count in counts:
        for replicate in REPLICATED:
            table.add_column(f"{count}, {replicate}", justify="center")
    checked: list[bool] = []
    for name in choose_names(models, load_models()):
        print(name, file=sys.stderr, flush=True)
        shown = []
        with in_double_precision():
            step, state, others = load_models()[name]("float64")
            for count in counts:
                for replicate in REPLICATED:
                    made = tofu.jax.partition(step, count, (state, *others), replicate=replicate, search_seconds=2)
                    checked.append(made.check_replicas())
                    shown.append("yes" if checked[-1] else "no")
        table.add_row(name, *shown)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    console.print(f"{sum(checked)} of {len(checked)} programs")
    sys.exit(0 if sum(checked) >= LEAST * len(checked) else 1)


if __name__ == "__main__":
    main()
