"""Bytes that a JAX step moves under Tofu's plans and under those that people make by hand, counted from optimised HLO.

    python -m benchmarks.jax_compare --workers 8 [--model MLP ...]

From shapes alone, compiled for virtual devices of the CPU and not run. Bytes are those that all devices receive in one step, loops times
their trip counts (`benchmarks.jax_traffic`). "arguments" are the bytes of one device's shards of state and data; "work" is what all devices
compute, of what one device would. Each peer is met once more by a plan that may hold as much as it does (`memory_limit=`). The benchmark
fails where HLO moves more than its plan counts, and where a peer moves less than the plans within its memory; peers that hold less than the
plan that splits everything, and those that have every device compute the same, are none.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tofu.errors import TofuError
from tofu.search import factorize

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
MOST_WORK = 1.5  # of a peer: beyond, devices compute the same


@dataclass(frozen=True)
class Row:
    """A plan, compiled."""

    name: str
    planned_bytes: int | None
    moved_bytes: int
    argument_bytes: int
    work: float
    seconds: float
    note: str = ""

    @property
    def is_peer(self) -> bool:
        """Whether it is a plan made by hand that splits the work."""
        return self.planned_bytes is None and self.moved_bytes >= 0 and self.work <= MOST_WORK


def compare(name: str, workers: int, search_seconds: float) -> list[Row]:
    """Tofu's plans, the peers, and the plans within the memory of each peer."""
    import jax  # not at the top: it looks at its devices when it is first used, and the options say how many there are

    import tofu.jax
    from benchmarks.jax_peers.models import MODELS
    from benchmarks.jax_peers.peers import PEERS
    from benchmarks.jax_traffic import count_traffic

    model = MODELS[name]()
    arguments = model.state, model.data
    whole_work = jax.jit(model.step).lower(*arguments).compile().cost_analysis()["flops"]

    def compile_row(label: str, lowered: Any, planned: int | None = None, note: str = "") -> Row:
        started = time.perf_counter()
        compiled = lowered.compile()
        seconds = time.perf_counter() - started
        held = compiled.memory_analysis().argument_size_in_bytes
        work = workers * compiled.cost_analysis()["flops"] / whole_work
        return Row(label, planned, count_traffic(compiled.as_text(), workers).total, held, work, seconds, note)

    def plan_row(label: str, **asked: Any) -> Row:
        made = tofu.jax.partition(model.step, workers, arguments, search_seconds=search_seconds, cache=False, **asked)
        return compile_row(label, made.lower(*arguments), made.plan.communication_bytes, made.plan.optimality)

    def peer_row(label: str) -> Row:
        factors = factorize(workers)
        mesh = jax.make_mesh(factors, tuple(f"axis{n}" for n in range(len(factors))), devices=jax.devices()[:workers])
        shardings = PEERS[label](mesh, model)
        step = jax.jit(model.step, in_shardings=shardings, out_shardings=(shardings[0], None))
        return compile_row(label, step.lower(*arguments))

    split = plan_row("Tofu, everything split")
    rows = [split, plan_row("Tofu, replicas free", replicate="free")]
    peers = [_attempt(label, lambda label=label: peer_row(label)) for label in PEERS]
    within = [
        _attempt(label, lambda label=label, limit=peer.argument_bytes: plan_row(label, memory_limit=limit))
        for peer in peers
        if peer.is_peer and peer.argument_bytes >= split.argument_bytes
        for label in (f"Tofu within {peer.name}",)
    ]
    return rows + peers + within


def _attempt(label: str, make: Callable[[], Row]) -> Row:
    """A row, or one that says why there is none."""
    try:
        return make()
    except (TofuError, ValueError) as error:
        return Row(label, None, -1, 0, 0.0, 0.0, f"does not apply: {str(error).splitlines()[0][:60]}")


def show(name: str, rows: list[Row], console: Console) -> bool:
    """Prints a table; whether everything is as it should be."""
    table = Table(title=name)
    for heading in ("plan", "planned MB", "HLO MB", "arguments MB", "work", "compiled in s", ""):
        table.add_column(heading, justify="left" if heading in ("plan", "") else "right")
    for row in rows:
        planned = "-" if row.planned_bytes is None else f"{row.planned_bytes / 1e6:.2f}"
        moved = "-" if row.moved_bytes < 0 else f"{row.moved_bytes / 1e6:.2f}"
        table.add_row(
            row.name,
            planned,
            moved,
            f"{row.argument_bytes / 1e6:.3f}",
            f"{row.work:.2f}",
            f"{row.seconds:.1f}",
            row.note,
        )
    console.print(table)
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
