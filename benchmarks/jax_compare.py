"""Bytes that a JAX step moves under Tofu's plans and under those that people make by hand, counted from optimised HLO.

    python -m benchmarks.jax_compare --workers 8 [--model MLP ...]

From shapes alone, compiled for virtual devices of the CPU and not run: what `python -m tofu jax compare` does for any step, with Megatron's
mixes among the peers. The benchmark fails where HLO moves more than its plan counts, and where a peer moves less than the plans within its
memory; peers that hold less than the plan that splits everything, and those that have every device compute the same, are none.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click
from rich.console import Console

if TYPE_CHECKING:  # JAX looks at its devices when it is first used, and the options say how many there are
    from tofu.jax.compare.comparison import Row

MOST_HLO_OVER_PLAN = 1.02
MOST_OF_BEST_PEER = 1.0
ASKED_OF_BEST_PEER = 0.95
STATED_WORKERS = 8
STATED_MODELS = ("MLP", "Transformer block", "LSTM 2x4", "LSTM 2x100, scan", "ResNet")
STATED_MB = {  # by docs/jax.md, of 8 workers
    "Tofu, everything split": (31.3, 26.0, 13.1, 213, 5.86),
    "Tofu, replicas free": (26.1, 26.0, 11.4, 167, 4.54),
    "data parallel": (239, 73.4, 236, 5884, 4.55),
    "FSDP / ZeRO-3": (384, 62.6, 20.9, 800, 7.65),
    "best Megatron": (101, 35.7, 20.1, 709, None),
}


def compare(name: str, workers: int, search_seconds: float) -> list[Row]:
    """The rows of a model."""
    import jax

    from benchmarks.jax_peers.models import MODELS
    from benchmarks.jax_peers.peers import ALL_PEERS
    from tofu.jax.compare.comparison import Comparison
    from tofu.jax.compare.peers import split_arguments
    from tofu.jax.frontend.read_step import read_step
    from tofu.jax.planning import read_settings

    model = MODELS[name]()
    arguments = split_arguments((model.state, model.data), model.batch)
    source = read_step(model.step, arguments.all)
    settings = read_settings(workers, {"search_seconds": search_seconds, "cache": False})
    return list(Comparison(model.step, source, arguments, settings, jax.devices()[:workers]).run(ALL_PEERS))


def show(name: str, rows: list[Row], console: Console) -> bool:
    """Prints a table; whether everything is as it should be."""
    from tofu.jax.compare.comparison import draw_rows

    console.print(draw_rows(name, rows))
    faults = [
        f"{row.name}: HLO moves {row.moved_bytes / row.planned_bytes:.3f} of the plan"
        for row in rows
        if row.planned_bytes and row.moved_bytes > MOST_HLO_OVER_PLAN * row.planned_bytes
    ]
    plans = [row for row in rows if row.planned_bytes is not None]
    for peer in (row for row in rows if row.is_peer):
        within = [row for row in plans if row.argument_bytes <= peer.argument_bytes]
        if not within:
            continue
        ratio = min(row.moved_bytes for row in within) / max(peer.moved_bytes, 1)
        said = f"{peer.name}: the best plan within its memory moves {ratio:.3f} of what it moves"
        if ratio > MOST_OF_BEST_PEER:
            faults.append(said)
        elif ratio > ASKED_OF_BEST_PEER:
            console.print(f"  {said}, above {ASKED_OF_BEST_PEER}")
    for fault in faults:
        console.print(f"  [red]{fault}[/]")
    return not faults


def check_stated(name: str, rows: list[Row], console: Console) -> bool:
    """Whether the figures of docs/jax.md are those that were measured."""
    moved = {row.name: row.moved_bytes for row in rows}
    megatron = [row.moved_bytes for row in rows if row.name.startswith("Megatron") and row.is_peer]
    moved["best Megatron"] = min(megatron, default=-1)
    wrong = []
    for label, figures in STATED_MB.items():
        stated = figures[STATED_MODELS.index(name)]
        if stated is not None and abs(moved[label] / 1e6 - stated) > 0.005 * stated:
            wrong.append(f"{label}: {moved[label] / 1e6:.4g} MB, and docs/jax.md says {stated}")
    for one in wrong:
        console.print(f"  [red]{one}[/]")
    return not wrong


@click.command(help=__doc__)
@click.option("--workers", default=8, show_default=True)
@click.option("--model", "models", multiple=True, help="By default all.")
@click.option("--search-seconds", default=10.0, show_default=True)
def main(workers: int, models: tuple[str, ...], search_seconds: float) -> None:
    """All models."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={workers}"
    from benchmarks.jax_peers.models import MODELS

    console = Console(width=None if sys.stdout.isatty() else 170)
    good = []
    for name in models or MODELS:
        rows = compare(name, workers, search_seconds)
        good.append(show(name, rows, console))
        if workers == STATED_WORKERS and name in STATED_MODELS:
            good.append(check_stated(name, rows, console))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
