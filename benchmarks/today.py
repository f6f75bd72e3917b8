"""Plans for large models on many devices in JAX, beside data, tensor and pipeline parallelism by formula.

\b
    python -m benchmarks.today
    python -m benchmarks.today --models llama-8b,mixtral-8x7b --devices 8,64 --levels one,two --json rows.json
    python -m benchmarks.today --models "llama-*" --plans small --seconds 10,60 --repeat 3
    python -m benchmarks.today --models llama-8b --devices 3,7 --levels one --uneven none

No devices are needed. Each plan is made in a separate process, and the planner's seconds are processor seconds. On one
level, each device receives 450 GB/s with a latency of 5 us. On two levels, 50 GB/s per device with a latency of 20 us
connect hosts of 8 devices. Bytes are in GB of 1e9 bytes; "needed" is for one device. Interrupted runs print the
finished rows.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.planning_rows import PLANS, Limits, Request, Row, measure
from tests.shared.campaigns import choose_names
from tests.shared.parallelism import HandPlan, list_hand_plans
from tofu.search.native import UNEVEN

LEVELS = ("one", "two")
DEVICE_BYTES = 80e9
HEADINGS = (
    "GB",
    "per device",
    "seconds",
    "jaxpr s",
    "read s",
    "search s",
    "rest s",
    "planner GB",
    "arguments",
    "temporaries",
    "needed",
    "fits",
)


@dataclass(frozen=True)
class Group:
    """Rows of one model on one machine: Tofu's plans, and plans by formula.

    `has_activations` is True if the formulas count the memory of activations.
    """

    request: Request
    rows: tuple[Row, ...]
    hand_plans: tuple[HandPlan, ...]
    has_activations: bool

    def to_plain(self) -> dict[str, Any]:
        request = self.request
        return {
            **{name: getattr(request, name) for name in ("model", "samples", "devices", "levels")},
            "has_activations": self.has_activations,
            "plans": [asdict(row) for row in self.rows],
            "formulas": [{**asdict(plan), "received_bytes": plan.received_bytes} for plan in self.hand_plans],
        }


def list_requests(
    models: Sequence[str],
    devices: Sequence[int],
    levels: Sequence[str],
    plans: Sequence[str],
    seconds: Sequence[float],
    batch: int | None,
    uneven: str | None,
    is_apart: bool,
) -> Iterator[list[Request]]:
    """Yield the requests of each group. Two levels need several complete hosts."""
    from tests.models.jax.large import MODELS

    for model, count, level in product(models, devices, levels):
        samples = MODELS[model].count_samples(count, batch)
        made = [
            Request(model, samples, count, level, plan, each, uneven, is_apart) for plan in plans for each in seconds
        ]
        if made[0].has_links:
            yield made


def draw_table(groups: Sequence[Group]) -> Table:
    table = Table("model", "devices", "levels", "plan", box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    table.add_column("proof, or error")
    for group in groups:
        request = group.request
        name = f"{request.model}, {request.samples:,}", f"{request.devices:,}", request.levels
        for row in group.rows:
            table.add_row(*name, *_format_row(row))
        for plan in group.hand_plans:
            table.add_row(*name, *_format_hand_plan(plan, request.devices, group.has_activations))
        table.add_section()
        table.add_row()
    return table


def _format(value: float | None, scale: float = 1.0, digits: int = 1) -> str:
    return "-" if value is None else f"{value / scale:,.{digits}f}"


def _format_fit(needed: float | None) -> str:
    return "-" if needed is None else "yes" if needed <= DEVICE_BYTES else "no"


def _format_row(row: Row) -> list[str]:
    request, total = row.request, row.communication_bytes
    seconds = (row.jaxpr_seconds, row.reading_seconds, row.searching_seconds, row.other_seconds)
    memory = (row.arguments_bytes, row.temporaries_bytes, row.needed_bytes)
    return [
        f"Tofu, {request.plan}, {request.search_seconds:g} s",
        _format(total, 1e9),
        _format(None if total is None else total / request.devices, 1e9, 2),
        _format(row.communication_seconds, digits=4),
        *(_format(value) for value in seconds),
        _format(row.planner_bytes, 1e9, 2),
        *(_format(value, 1e9) for value in memory),
        _format_fit(row.needed_bytes),
        "; ".join(filter(None, (row.proof, row.error.partition("\n")[0]))),
    ]


def _format_hand_plan(plan: HandPlan, devices: int, has_activations: bool) -> list[str]:
    notes = ["by formula"]
    if not has_activations:
        notes.append("memory without activations")
    if not plan.is_in_space:
        notes += ["outside of Tofu's plans", f"idle for {plan.idle_share:.0%} of a step"]
    return [
        plan.name,
        _format(devices * plan.received_bytes, 1e9),
        _format(plan.received_bytes, 1e9, 2),
        _format(plan.seconds, digits=4),
        *["-"] * 7,
        _format(plan.memory_bytes, 1e9),
        _format_fit(plan.memory_bytes),
        "; ".join(notes),
    ]


@click.command(help=__doc__)
@click.option("--models", default="*", show_default=True, help="Names or patterns, separated by commas.")
@click.option("--devices", default="8,64,256,1024", show_default=True)
@click.option("--levels", default=",".join(LEVELS), show_default=True)
@click.option("--plans", default="small,free", show_default=True, help=f"Some of {', '.join(PLANS)}.")
@click.option("--seconds", default="10", show_default=True, help="Seconds of search, separated by commas.")
@click.option("--batch", type=int, help="Samples per device. By default 2 sequences, and more images.")
@click.option(
    "--uneven", type=click.Choice(UNEVEN), help="Arguments with overlapping shards, as in tofu.jax.partition."
)
@click.option("--apart", is_flag=True, help="Do not recognize repeated layers, which makes the search slower.")
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Runs of each row.")
@click.option("--plan-limit", default=900.0, show_default=True, help="Seconds after which a plan is given up.")
@click.option("--report-limit", default=120.0, show_default=True, help="The same for the memory of a device.")
@click.option("--planner-memory", default=16.0, show_default=True, help="GB that a planner may allocate.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write all rows to this file after each row.")
def main(
    models: str,
    devices: str,
    levels: str,
    plans: str,
    seconds: str,
    batch: int | None,
    uneven: str | None,
    apart: bool,
    repeat: int,
    plan_limit: float,
    report_limit: float,
    planner_memory: float,
    file: Path | None,
) -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from tests.models.jax.large import MODELS

    chosen = list_requests(
        choose_names(models, MODELS),
        [int(count) for count in devices.split(",")],
        choose_names(levels, LEVELS),
        choose_names(plans, PLANS),
        [float(each) for each in seconds.split(",")],
        batch,
        uneven,
        apart,
    )
    limits = Limits(plan_limit, report_limit, int(1e9 * planner_memory))
    groups: list[Group] = []
    try:
        for requests in chosen:
            first = requests[0]
            size = MODELS[first.model].build(first.samples).size
            hand_plans = tuple(list_hand_plans(size, first.links))
            groups.append(Group(first, (), hand_plans, size.inner_bytes > 0))
            for request in requests:
                started = time.perf_counter()
                row = measure(request, repeat, limits)
                groups[-1] = replace(groups[-1], rows=(*groups[-1].rows, row))
                _report(row, time.perf_counter() - started)
                if file:
                    file.write_text(json.dumps([group.to_plain() for group in groups], indent=1) + "\n")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    Console(width=None if sys.stdout.isatty() else 300).print(draw_table(groups))


def _report(row: Row, seconds: float) -> None:
    request = row.request
    name = f"{request.model}, {request.devices} devices, levels={request.levels}, {request.plan}"
    moved = "no plan" if row.communication_bytes is None else f"{row.communication_bytes / 1e9:,.1f} GB"
    print(f"{name}: {moved}, {seconds:.0f} s {row.error}".rstrip(), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
