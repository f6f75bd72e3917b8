"""Run long verifications of many cases: show progress and problems, and measure time and memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Generator, Iterable
from contextlib import closing
from typing import Any, Protocol, TypeVar

from rich.console import Console

from tofu.formatting import format_count
from tofu.planning.progress import track_progress


class HasProblems(Protocol):
    """Result of verifying one case."""

    @property
    def case(self) -> Any:
        """The case. It prints as its name."""

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each problem found; empty if the case passed."""


Result = TypeVar("Result", bound=HasProblems)


def collect(case_results: Generator[Result, None, None], count: int, results: list[Result]) -> None:
    """Append the results of `count` cases to `results`. Print progress and problems on stderr.

    After an interrupt, `results` holds the cases finished so far.
    """
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console.print(f"tofu: verifying {format_count(count, 'case')}")
    with closing(case_results):
        for result in track_progress(case_results, "verifying", count, console):
            results.append(result)
            for problem in result.problems[:1]:
                console.print(f"{result.case}: {problem}", markup=False)


def measure_resources(start_seconds: float) -> dict[str, float]:
    """Return the seconds since `start_seconds`, a value of `time.monotonic`, and the peak memory of the largest process.

    The largest process is this one, or a child that has ended.
    """
    largest_kib = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"seconds": round(time.monotonic() - start_seconds, 1), "peak_memory_gib": round(largest_kib / 2**20, 2)}


def list_explained_cuts(results: Iterable[Any]) -> list[str]:
    """List the splits that kernels compute correctly but that Tofu does not offer, with the reasons."""
    return [f"{missing.op}: {missing.cut}: {reason}" for result in results for missing, reason in result.explained]
