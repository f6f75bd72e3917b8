"""Random models under random plans, against one device.

    make fuzz SECONDS=600
    python -m tests.campaigns.fuzz --seconds 600 --jobs 2
    python -m tests.campaigns.fuzz --seed 4711 --count 1 --focus chains
    python -m tests.campaigns.fuzz --table

Every seed is a model, and the same one wherever it is run. Results are kept in a file, by commit: a run goes on where the last one at this
commit stopped, and the tables are of all records at it. The exit code is 1 where something failed.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import click
from rich.console import Console

from tests.campaigns.fuzz.campaign import Record, find_commit, read_records, run_campaign
from tests.campaigns.fuzz.models import FOCUSES, make_sample
from tests.campaigns.fuzz.script import write_script
from tests.campaigns.fuzz.shrink import shrink
from tests.campaigns.fuzz.tally import count_strategies, print_models, print_strategies
from tests.campaigns.fuzz.trial import Failure
from tests.campaigns.fuzz.untaken import run_untaken
from tofu.mxnet.verify.record import read_record

RESULTS = Path("demo-output/fuzz.jsonl")


@click.command(help=__doc__)
@click.option("--seed", default=0, show_default=True, help="The first one.")
@click.option("--count", type=int, help="How many seeds; without end where nothing is said.")
@click.option("--seconds", type=float, help="Start no model after that time.")
@click.option("--jobs", default=1, show_default=True, help="Processes at a time.")
@click.option("--focus", type=click.Choice(list(FOCUSES)), default="all", show_default=True)
@click.option("--results", "path", default=RESULTS, show_default=True, type=click.Path(path_type=Path))
@click.option(
    "--shrink",
    "is_shrunk",
    is_flag=True,
    help="Write the smallest program that fails in the same way, for each kind of failure.",
)
@click.option("--table", is_flag=True, help="Run nothing; print the operators and strategies too.")
@click.option("--commits", help="For the table: sum over these commits, comma separated, or 'all'; else this one's.")
@click.option(
    "--untaken",
    is_flag=True,
    help="Run the models in the file again that offered strategies which no plan took, under plans that take them.",
)
def main(
    seed: int,
    count: int | None,
    seconds: float | None,
    jobs: int,
    focus: str,
    path: Path,
    is_shrunk: bool,
    table: bool,
    commits: str | None,
    untaken: bool,
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 130)
    if untaken:
        with path.open("a") as file:
            for record in run_untaken(list(read_records(path))):
                print_failures(record, console)
                file.write(json.dumps(vars(record)) + "\n")
                file.flush()  # MXNet may end the process
    elif not table:
        seeds = itertools.count(seed) if count is None else iter(range(seed, seed + count))
        until = time.monotonic() + (seconds if seconds is not None else float("inf"))
        failed: list[Record] = []

        def report(record: Record) -> None:
            print_failures(record, console)
            failed.extend([record] if record.failures else [])

        run_campaign(path, focus, seeds, jobs, until, report)
        if is_shrunk:
            shrink_failures(failed, path.parent, console)
    wanted = commits.split(",") if commits else [find_commit()]
    records = [record for record in read_records(path) if record.commit in wanted or wanted == ["all"]]
    print_models(records, console)
    if table:
        print_strategies(count_strategies(records), read_record(), console)
    sys.exit(any(record.failures for record in records))


def shrink_failures(failed: list[Record], folder: Path, console: Console) -> None:
    """A program for the first failures of each kind, of a model and of an error."""
    done: set[tuple[str, str]] = set()
    for record in failed:
        failure = record.failures[0]
        if (record.kind, failure["kind"]) in done or not failure[
            "workers"
        ]:  # it ends its process, and would end this one
            continue
        done.add((record.kind, failure["kind"]))
        found = shrink(make_sample(record.seed, record.kind), Failure(**failure))
        script = folder / f"fuzz-{record.kind}-{record.seed}.py"
        script.write_text(write_script(found))
        console.print(
            f"{script}: {found.failure.kind}, {len(found.sample.symbol.get_internals().list_outputs())} tensors, "
            f"{found.failure.workers} workers, {found.failure.plan} plan"
        )


def print_failures(record: Record, console: Console) -> None:
    """A seed that failed, and how to run it again."""
    for failure in record.failures[:1]:
        again = (
            f"python -m tests.campaigns.fuzz --seed {record.seed} --count 1 --focus {record.focus} --results /dev/null"
        )
        console.print(
            f"seed {record.seed}, {record.kind}, {failure['workers']} workers, {failure['plan']} plan: {failure['kind']}",
            style="red",
        )
        console.print(f"{failure['message']}\n{again}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
