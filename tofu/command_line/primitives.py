"""`python -m tofu verify --jax`: verify the descriptions of JAX's primitives."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console

from tofu.command_line.planning_options import takes
from tofu.command_line.running import VERIFYING, collect, list_explained_cuts, print_outcome
from tofu.engines import JAX
from tofu.report.console import print_list


@click.command()
@click.argument("names", nargs=-1, metavar="[PRIMITIVE]...")
@takes(VERIFYING)
def verify_jax(names: Sequence[str], seed: int, missing: bool, jobs: int, as_json: bool) -> None:
    """Compare Tofu's descriptions with JAX's own primitives.

    A description tells Tofu what a primitive computes, and so how it can be split; a strategy is one way to split
    it. Verifies all descriptions on the CPU, or only those of each PRIMITIVE.

    \b
    Four checks are made for every equation of the built-in cases and of their
    gradients:
      (a) NumPy computes the description. The result must equal the primitive's:
          floating-point numbers to 1e-10 of the largest number, others exactly.
          Descriptions without a formula, such as an eigenvalue decomposition,
          are only checked by (b).
      (b) The primitive is split by each strategy into 2 and 3 parts, which run as
          on a worker. Together they must equal the whole result.
      (c) The same is checked for each pair of strategies, in 2 by 2 parts.
      (d) All combinations of dimensions are tried as splits, also with overlapping
          borders. A split that works must be a strategy.

    XLA compiles without optimization, to save time, unless XLA_FLAGS is set. The exit status is 1 if a check fails, or
    if a described primitive was not compared with anything.

    \b
    Examples:
        python -m tofu verify --jax
        python -m tofu verify --jax dot_general conv_general_dilated
        python -m tofu verify --jax --no-missing --seed 1 --json
    """  # noqa: D301  click reads the escape
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    start_seconds = time.monotonic()
    summary, campaign = (JAX.load(f"verify.{module}") for module in ("summary", "campaign"))
    summary.check_names(names)
    cases = list(campaign.load_cases().values())
    results: list[Any] = []
    collect(campaign.verify_cases(cases, names, seed, missing, min(jobs, len(cases))), len(cases), results)
    totals = summary.summarize(results, names)
    print_outcome(
        as_json,
        lambda: _summarize_as_json(results, totals),
        lambda console: _print_results(console, results, summary.results_table(results), totals),
        start_seconds,
    )
    if totals.uncompared or any(result.problems for result in results):
        raise SystemExit(1)


def _summarize_as_json(results: Sequence[Any], totals: Any) -> dict[str, Any]:
    return {
        **vars(totals),
        "problems": {result.case: list(result.problems) for result in results if result.problems},
        "exact_cuts": list_explained_cuts(results),
    }


def _print_results(console: Console, results: Sequence[Any], table: Any, totals: Any) -> None:
    console.print(table)
    problems = [f"{result.case}: {problem}" for result in results for problem in result.problems]
    print_list(console, "What disagrees, by case:", problems)
    print_list(console, "Exact cuts that are not strategies:", list_explained_cuts(results))
    print_list(console, "Compared with nothing:", totals.uncompared)
    console.print(f"\n{totals}", soft_wrap=True)
