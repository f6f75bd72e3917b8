"""Compare random models under random plans with one device.

\b
    make fuzz SECONDS=600
    python -m tests.campaigns.fuzz --seconds 600 --jobs 2
    python -m tests.campaigns.fuzz --seed 4711 --count 1 --focus chains

A seed always yields the same model. Results are kept in a file for each source tree, and a run continues where the last
one stopped. The summary and the exit code (1 after a failure) include all results of this tree.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import click
from rich.console import Console

from tests.campaigns.fuzz.campaign import READY, FuzzCase, print_summary, run_seed
from tests.campaigns.fuzz.models import FOCUSES
from tests.campaigns.fuzz.trial import FuzzResult
from tests.shared.campaigns import read_results, run_waiting

RESULTS = Path("demo-output/fuzz.jsonl")
MODELS_OF_A_PROCESS = 150  # kernels, kept analyses and fragments of memory accumulate


@click.command(help=__doc__)
@click.option("--seed", default=0, show_default=True, help="First seed.")
@click.option("--count", type=int, help="Number of seeds; unlimited by default.")
@click.option("--seconds", type=float, help="Start no model after this time.")
@click.option("--jobs", default=1, show_default=True, help="Processes at a time.")
@click.option("--focus", type=click.Choice(list(FOCUSES)), default="all", show_default=True, help="Kind of models.")
@click.option("--results", "path", default=RESULTS, show_default=True, type=click.Path(path_type=Path))
def main(seed: int, count: int | None, seconds: float | None, jobs: int, focus: str, path: Path) -> None:
    console = Console(width=None if sys.stdout.isatty() else 130)
    READY.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + (seconds if seconds is not None else float("inf"))
    seeds = itertools.count(seed) if count is None else range(seed, seed + count)
    cases = itertools.takewhile(lambda _: time.monotonic() < until, (FuzzCase(each, focus) for each in seeds))
    run_waiting(run_seed, cases, FuzzResult, jobs, path, console, cases_of_a_process=MODELS_OF_A_PROCESS)
    results = read_results(path, FuzzCase, FuzzResult) if path.is_file() else {}
    sys.exit(bool(print_summary(results.values(), console)))


if __name__ == "__main__":
    main()
