"""The same numbers as one device, for models under many plans: the largest errors, and the strategies that took part.

    python -m tests.campaigns.equality --plans 50 --jobs 2
    python -m tests.campaigns.equality --models resnet_v1,resnet_v2 --workers 4 --plans 10
    python -m tests.campaigns.equality --group zoo --workers 2,4,8 --dtypes float64 --plans 10 --steps 3 --default-steps 3
    python -m tests.campaigns.equality --coverage

The group "small" is that of the tests; "zoo" are networks that MXNet's users train, scaled down. Results are kept in a file while they
come in: a run that was interrupted, or is asked for more models, goes on. `--coverage` prints in how many random plans of that file each
strategy of the operators that are run in parts, or read halos, was taken.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tests.campaigns.equality_runs import ALL_MODELS, EXACT, GROUPS, Case, Result, run_case
from tests.shared.campaigns import read_results, run_waiting

CHUNK = 10  # random plans of one case
SINGLE = "float32"
RESULTS = Path("demo-output/equality.jsonl")
DEFAULT_STEPS = 20

Results = dict[str, tuple[Case, Result]]


def list_cases(
    models: list[str], dtypes: list[str], workers: list[int], plans: int, steps: int, default_steps: int
) -> Iterator[Case]:
    """The default plan and `plans` random ones, in chunks; in float32 where MXNet has no other kernels for a model."""
    for model in models:
        is_single = ALL_MODELS[model](SINGLE).is_single_precision
        for dtype in [SINGLE] if is_single else dtypes:
            for count in workers:
                for first in range(0, max(plans, 1), CHUNK):
                    seeds = tuple(range(first, min(first + CHUNK, plans)))
                    yield Case(model, dtype, count, seeds, first == 0, steps, default_steps)


def print_errors(results: Results, console: Console) -> None:
    """One line for each model and type: the largest of all plans and numbers of workers."""
    table = Table(
        *("model", "type", "workers", "plans", "step", "weights", "one device", "bytes", "problems", "seconds"),
        title="Largest deviations from one device, relative to the largest number of a tensor",
    )
    rows: dict[tuple[str, str], list[tuple[Case, Result]]] = {}
    for case, result in results.values():
        rows.setdefault((case.model, case.dtype), []).append((case, result))
    for (model, dtype), found in rows.items():
        runs = [result for _, result in found]
        table.add_row(
            *(model, dtype, " ".join(sorted({str(case.workers) for case, _ in found}))),
            str(sum(run.plans for run in runs)),
            *(f"{max(errors):.1e}" for errors in zip(*((r.step_error, r.weight_error) for r in runs), strict=True)),
            "" if dtype == EXACT else f"{max(run.own_error for run in runs):.1e}",
            "differ" if any("kernels read" in problem for run in runs for problem in run.problems) else "equal",
            *(str(sum(len(run.problems) for run in runs)), f"{sum(run.seconds for run in runs):.0f}"),
        )
    console.print(table)


def print_coverage(results: Results, console: Console) -> list[str]:
    """In how many random plans each strategy was taken; returns the strategies that never were."""
    taken: Counter[tuple[str, str]] = Counter()
    for _, result in results.values():
        taken.update({(op, axis): count for op, axis, count in result.taken})
    table = Table(
        "operator", "axis: random plans that take it", title="Strategies of operators in parts and with halos"
    )
    for op in sorted({op for op, _ in taken}):
        table.add_row(op, ", ".join(f"{axis}: {taken[op, axis]:,}" for name, axis in sorted(taken) if name == op))
    console.print(table)
    return [f"{op}.{axis}" for (op, axis), count in sorted(taken.items()) if not count]


@click.command(help=__doc__)
@click.option("--group", type=click.Choice(list(GROUPS)), default="small", show_default=True, help="All its models.")
@click.option("--models", help=f"Models instead of a group, comma separated, of {', '.join(ALL_MODELS)}.")
@click.option("--dtypes", default="float64,float32", show_default=True, help="Types, comma separated.")
@click.option("--workers", default="2,3,4,6,8", show_default=True, help="Numbers of workers, comma separated.")
@click.option("--plans", default=50, show_default=True, help="Random plans for each model, type and number of workers.")
@click.option("--steps", default=2, show_default=True, help="Training steps under a random plan.")
@click.option(
    "--default-steps", default=DEFAULT_STEPS, show_default=True, help="Training steps under the plan of the search."
)
@click.option("--jobs", default=1, show_default=True, help="Processes at a time.")
@click.option("--results", "path", default=RESULTS, show_default=True, type=click.Path(path_type=Path))
@click.option("--coverage", is_flag=True, help="Print the strategies that the results in the file took; run nothing.")
def main(
    group: str,
    models: str | None,
    dtypes: str,
    workers: str,
    plans: int,
    steps: int,
    default_steps: int,
    jobs: int,
    path: Path,
    coverage: bool,
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 130)
    if not coverage:
        counts = [int(count) for count in workers.split(",")]
        names = models.split(",") if models else list(GROUPS[group])
        cases = list(list_cases(names, dtypes.split(","), counts, plans, steps, default_steps))
        run_waiting(run_case, cases, Result, jobs, path, console, cases_of_a_process=8)
        wanted = {case.key for case in cases}
        results = {key: found for key, found in read_results(path, Case, Result).items() if key in wanted}
        print_errors(results, console)
    else:
        results = read_results(path, Case, Result)
    never = print_coverage(results, console)
    console.print(f"never taken: {', '.join(never)}" if never else "Every strategy was taken.")
    sys.exit(any(result.problems for _, result in results.values()) or (coverage and bool(never)))


if __name__ == "__main__":
    main()
