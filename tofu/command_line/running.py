"""Long runs over many cases: a progress bar, problems when they are found, and resources used."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from rich.console import Console
from rich.progress import track


class HasProblems(Protocol):
    """Result of one case."""

    @property
    def case(self) -> Any:
        """The case, which prints as its name."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that has to be fixed."""


Result = TypeVar("Result", bound=HasProblems)


def collect(running: Iterator[Result], count: int) -> list[Result]:
    """Return the results of `count` cases, with a progress bar and a line for each problem."""
    console, results = Console(stderr=True, highlight=False), list[Result]()
    for result in track(running, "verifying", total=count, console=console, transient=True):
        results.append(result)
        for problem in result.problems[:1]:
            console.print(f"{result.case}: {problem}", markup=False)
    return results


def measure_resources(began: float) -> dict[str, float]:
    """Return the seconds since `began` on the monotonic clock, and the memory of the largest process: this one, or a finished child."""
    largest = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"seconds": round(time.monotonic() - began, 1), "peak_memory_gib": round(largest / 2**20, 2)}
