"""MXNet's own tests with every bind partitioned, beside one device: how many pass, and which fail that one device passes.

    python -m tests.campaigns.mxnet_tests --source mxnet test_module test_executor
    python -m tests.campaigns.mxnet_tests --source mxnet --as symbol --workers 2 test_operator --only softmax
    python -m tests.campaigns.mxnet_tests --table

Tests are partitioned in two ways: "symbol", every `simple_bind` and `bind` of a symbol partitions it, and "module", `mx.mod.Module` is
`tofu.mod.Module`. The tests' text stays as it is. Results are kept in a file while they come in, and a run goes on where the last one
stopped. Where a process dies or a test takes too long, that test is counted, and the others go on in another process.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tests.campaigns.mxnet_suite.process import run_tests
from tests.campaigns.mxnet_suite.reasons import ROUNDING, find_reason
from tests.campaigns.mxnet_suite.ways import GLUON, GLUON_IN_DOUBLE, ONE_DEVICE, WAYS

RESULTS = Path("demo-output/mxnet_tests.jsonl")
SECONDS = 120  # that one test may take
FOLDER = "tests/python/unittest"
FILES = (
    *("test_module", "test_executor", "test_multi_device_exec", "test_loss", "test_rnn", "test_init", "test_symbol"),
    *("test_infer_shape", "test_attr", "test_contrib_svrg_module", "test_optimizer"),
)
HOW_TO_GET_ONE = f"""\
There are no tests of MXNet 1.9.1 in {{source}}: {FOLDER} is not there. They are part of its sources, not of its packages. To get them:

    git clone --depth 1 --branch 1.9.1 https://github.com/apache/mxnet mxnet
    python -m tests.campaigns.mxnet_tests --source mxnet"""


@dataclass(frozen=True)
class Run:
    """The tests of a file, partitioned in one way."""

    file: str
    way: str
    workers: int


@dataclass(frozen=True)
class Outcome:
    """What became of one test: "passed", "failed", "skipped", "crashed" or "timeout", with the first line of its error."""

    test: str
    outcome: str
    error: str
    seconds: float

    @property
    def is_failure(self) -> bool:
        """Whether the test ran and did not pass."""
        return self.outcome not in ("passed", "skipped")


Outcomes = dict[str, Outcome]


def run_file(source: Path, run: Run, chosen: str, done: Iterable[str], seconds: float) -> Iterator[Outcome]:
    """The outcomes of a file's tests, in processes of which each goes on where the last one died."""
    known = set(done)
    while True:
        last = "ended"
        for outcome in _run_process(source, run, chosen, known, seconds):
            known.add(outcome.test)
            last = outcome.outcome
            yield outcome
        if last not in ("crashed", "timeout"):
            return


def _run_process(source: Path, run: Run, chosen: str, done: set[str], seconds: float) -> Iterator[Outcome]:
    """The outcomes that one process has; the last one is "crashed" or "timeout" where it ended before its tests."""
    fresh = multiprocessing.get_context("spawn")
    ours, theirs = fresh.Pipe(duplex=False)
    path = (source / FOLDER / f"{run.file}.py").resolve()
    process = fresh.Process(target=run_tests, args=(theirs, path, run.way, run.workers, chosen, done), daemon=True)
    process.start()
    theirs.close()
    test, start = "", time.monotonic()
    try:
        while True:
            if not ours.poll(seconds):
                yield Outcome(test, "timeout", f"no end after {seconds:g} seconds", seconds)
                return
            event, name, error = ours.recv()
            if event == "ended":
                return
            if event == "begun":
                test, start = name, time.monotonic()
            elif event == "broken":
                yield Outcome("(import)", "failed", error, 0)
            else:
                yield Outcome(name, event, error, round(time.monotonic() - start, 1))
                test = ""
    except EOFError:
        process.join()
        if test:
            yield Outcome(test, "crashed", f"exit code {process.exitcode}", round(time.monotonic() - start, 1))
    finally:
        process.kill()
        process.join()


def read_outcomes() -> dict[Run, Outcomes]:
    """The last outcome of every test in the file of results."""
    found: dict[Run, Outcomes] = {}
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else ():
        record = json.loads(line)
        outcome = Outcome(**record["outcome"])
        found.setdefault(Run(**record["run"]), {})[outcome.test] = outcome
    return found


def run_all(source: Path, runs: Iterable[Run], chosen: str, again: bool, seconds: float, console: Console) -> None:
    """Run what has no outcome yet, or is asked for again, and keep what comes of it."""
    known = read_outcomes()
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        for run in runs:
            is_kept = not again or run.way == ONE_DEVICE
            for outcome in run_file(source, run, chosen, known.get(run, {}) if is_kept else (), seconds):
                file.write(json.dumps({"run": asdict(run), "outcome": asdict(outcome)}) + "\n")
                file.flush()
                if outcome.is_failure:
                    console.print(f"{run}: {outcome.test} {outcome.outcome}: {outcome.error}", markup=False)


def print_table(found: dict[Run, Outcomes], console: Console) -> list[str]:
    """A row for each file, way and number of workers, then the failures of partitioned tests that one device passes.

    Returns those of them for which no reason is known.
    """
    table = Table("file", "way", "workers", "passed", "failed", "as one device", "explained", "unexplained", box=None)
    failures = Table("file", "test", "way", "workers", "error, or the reason", box=None)
    unexplained = []
    for run, outcomes in found.items():
        alone = found.get(Run(run.file, ONE_DEVICE, 1), {})
        failed = [outcome for outcome in outcomes.values() if outcome.is_failure]
        new = [o for o in failed if run.way != ONE_DEVICE and not (o.test in alone and alone[o.test].is_failure)]
        double = found.get(Run(run.file, GLUON_IN_DOUBLE, run.workers), {}) if run.way == GLUON else {}
        reasons = {
            outcome: find_reason(run.file, outcome.test, run.way)
            or (ROUNDING if outcome.test in double and not double[outcome.test].is_failure else "")
            for outcome in new
        }
        open_ones = [outcome for outcome, reason in reasons.items() if not reason]
        passed = sum(outcome.outcome == "passed" for outcome in outcomes.values())
        counts = (passed, len(failed), len(failed) - len(new), len(new) - len(open_ones), len(open_ones))
        table.add_row(run.file, run.way, str(run.workers), *map(str, counts))
        for outcome, reason in reasons.items():
            text = f"known: {reason}" if reason else f"{outcome.outcome}: {outcome.error}"
            failures.add_row(run.file, outcome.test, run.way, str(run.workers), text)
        unexplained += [f"{run.file}::{outcome.test}" for outcome in open_ones]
    console.print(table)
    if failures.row_count:
        console.print("\nFailures of what one device passes:", failures)
    return unexplained


@click.command(help=__doc__)
@click.argument("files", nargs=-1)
@click.option("--source", type=click.Path(path_type=Path), default=Path("mxnet"), help="MXNet's sources, of 1.9.1.")
@click.option("--as", "ways", type=click.Choice([way for way in WAYS if way != ONE_DEVICE]), multiple=True)
@click.option("--workers", multiple=True, type=int, default=(2, 3))
@click.option("--only", default="", help="Tests with this text in their names.")
@click.option("--again", is_flag=True, help="Run what has been run, one device aside.")
@click.option("--seconds", default=SECONDS, help="That a test may take.")
@click.option("--table", "is_table", is_flag=True, help="Print what was found, run nothing.")
def main(
    files: tuple[str, ...],
    source: Path,
    ways: tuple[str, ...],
    workers: tuple[int, ...],
    only: str,
    again: bool,
    seconds: float,
    is_table: bool,
) -> None:
    """Run the tests and print what became of them; status 1 where a failure is not explained."""
    console = Console(width=200 if not sys.stdout.isatty() else None, soft_wrap=True)
    files = tuple(Path(file).stem for file in files) or FILES
    ways = ways or tuple(way for way in WAYS if way != ONE_DEVICE)
    if not is_table:
        if not (source / FOLDER).is_dir():
            raise click.ClickException(HOW_TO_GET_ONE.format(source=source))
        runs = [
            run
            for file in files
            for run in (Run(file, ONE_DEVICE, 1), *(Run(file, w, k) for w in ways for k in workers))
        ]
        run_all(source, runs, only, again, seconds, console)
    found = {run: outcomes for run, outcomes in read_outcomes().items() if run.file in files}
    sys.exit(1 if print_table(found, console) else 0)


if __name__ == "__main__":
    main()
