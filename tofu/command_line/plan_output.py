"""Print and save a plan, as the options of the command `plan` request."""

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
        "--rows",
        type=click.IntRange(0),
        default=60,
        show_default=True,
        help="Maximum number of rows in the table of layers; 0 for all.",
    ),
    click.option(
        "--why",
        multiple=True,
        metavar="LAYER",
        help="For each axis of LAYER, show the bytes that the plan would move if LAYER were split along it. May be repeated.",
    ),
    click.option(
        "--report",
        "page",
        type=OUTPUT,
        help="Write an HTML page with the splits, the transfers and the alternatives of each layer.",
    ),
    click.option("--save", "--json", "saved", type=OUTPUT, help="Write the plan to this JSON file."),
    click.option("--timings", is_flag=True, help="Print the time of each pass of the planner."),
)


@dataclass
# Refuses unknown `layers` before a long search begins.
class _CheckingLayers(Observer):
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
    """Make a plan with `make`, and print or write what the options in `SHOWN` request."""
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
