"""What the command `plan` shows of a plan and writes about it, whichever engine it is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

from tofu.command_line.planning_options import OUTPUT, Decorator, check_folder
from tofu.host.writing import write_atomically
from tofu.pipeline import Observer, Partition, observe_by_environment
from tofu.planning.progress import track_progress
from tofu.report.alternatives import check_layer
from tofu.report.console import make_console
from tofu.report.data_parallel import describe_data_parallel
from tofu.report.plan_page import render_page
from tofu.report.plan_table import alternatives_table, print_partition, timings_table
from tofu.search import Problem

T = TypeVar("T")

SHOWN: tuple[Decorator, ...] = (
    click.option(
        "--rows", type=click.IntRange(0), default=60, show_default=True, help="Longest table of layers; 0 shows all."
    ),
    click.option(
        "--why",
        multiple=True,
        metavar="LAYER",
        help="Say what the plan would move if LAYER were split along each of its axes; may be given several times.",
    ),
    click.option(
        "--report",
        "page",
        type=OUTPUT,
        help="Write a page for a browser: what is cut how, what moves, and why not otherwise: plan.html.",
    ),
    click.option("--save", "--json", "saved", type=OUTPUT, help="Write the plan to this file, as JSON."),
    click.option("--timings", is_flag=True, help="Say how long each pass took."),
)


@dataclass
class _CheckingLayers(Observer):
    """Refuses `layers` that the model does not have as soon as it is read: the search comes afterwards, and may take long."""

    layers: tuple[str, ...] = ()

    def __call__(self, name: str, value: T) -> T:
        if isinstance(value, Problem):
            for layer in self.layers:
                check_layer(layer, value.graph)
        return super().__call__(name, value)


def show_plan(
    name: str,
    make: Callable[[Observer], Partition],
    *,
    rows: int,
    why: Sequence[str],
    page: Path | None,
    saved: Path | None,
    timings: bool,
    lines: bool = False,
) -> None:
    """Make a partition and show it, as the options of `SHOWN` say."""
    check_folder("--save", saved)
    check_folder("--report", page)
    observe = _CheckingLayers(observe_by_environment().shown, layers=tuple(why))
    partition = make(observe)
    if saved is not None:
        write_atomically(str(saved), partition.plan.to_json() + "\n")
    console = make_console()
    print_partition(console, partition, rows or None, lines)
    if advice := describe_data_parallel(partition):
        console.print(f"\n{advice}", soft_wrap=True)
    if timings:
        console.print()
        console.print(timings_table(observe.seconds))
    for layer in why:
        console.print()
        console.print(alternatives_table(partition, layer))
    if page is not None:
        write_atomically(str(page), render_page(partition, name, track_progress))
        console.print(f"\nThe page is in {page}.")
    if saved is not None:
        console.print(f"\nThe plan is in {saved}.")
