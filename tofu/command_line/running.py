"""Common options and output of long verifications of many cases."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from typing import Any

import click
from rich.console import Console

from tofu.command_line.planning_options import Decorator
from tofu.formatting import format_count
from tofu.planning.progress import track_progress
from tofu.report.console import make_console

VERIFYING: tuple[Decorator, ...] = (
    click.option("--seed", default=0, show_default=True, help="Seed of random numbers."),
    click.option(
        "--missing/--no-missing",
        default=True,
        show_default=True,
        help="Also search for possible splits that Tofu does not offer.",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(1),
        default=os.cpu_count(),
        show_default="number of cores",
        help="Number of parallel processes.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the results as JSON."),
)


def collect(case_results: Generator[Any, None, None], count: int, results: list[Any]) -> None:
    """Append `count` results to the list `results`. Print progress and problems on stderr.

    A result has a name (`case`) and a list of sentences (`problems`). After Ctrl-C, `results` has the results so far.
    """
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console.print(f"tofu: verifying {format_count(count, 'case')}")
    with closing(case_results):
        for result in track_progress(case_results, "verifying", count, console):
            results.append(result)
            for problem in result.problems[:1]:
                console.print(f"{result.case}: {problem}", markup=False)


def print_outcome(
    as_json: bool,
    summarize: Callable[[], Mapping[str, Any]],
    show: Callable[[Console], None],
    start_seconds: float,
) -> None:
    """Print the results of a verification with `show`, or as JSON. Then print its time and memory.

    `start_seconds` is a value of `time.monotonic()`. The memory is the peak of the largest process.
    """
    largest_kib = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    seconds, gib = round(time.monotonic() - start_seconds, 1), round(largest_kib / 2**20, 2)
    if as_json:
        click.echo(json.dumps({**summarize(), "seconds": seconds, "peak_memory_gib": gib}, indent=1))
    else:
        show(make_console())
        click.echo(f"{seconds} seconds; the largest process had {gib} GiB.")


def list_explained_cuts(results: Iterable[Any]) -> list[str]:
    """Return a line for each correct split that Tofu rejects. The line states the reason."""
    return [f"{missing.op}: {missing.cut}: {reason}" for result in results for missing, reason in result.explained]
