"""Run MXNet's own tests with every model partitioned, and count those that pass on one device only.

\b
    python -m tests.campaigns.mxnet_tests --source mxnet test_module test_executor
    python -m tests.campaigns.mxnet_tests --source mxnet --as symbol --workers 2 test_operator --only softmax
    python -m tests.campaigns.mxnet_tests --table

Results are kept in files, and a run continues where the last one stopped. If a process dies or a test takes too long, that test fails, and
the others continue in another process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import click
from rich.console import Console
from rich.table import Table

from tests.campaigns.mxnet_suite.reasons import ROUNDING, find_reason
from tests.campaigns.mxnet_suite.ways import GLUON, GLUON_IN_DOUBLE, ONE_DEVICE, WAYS

ROOT = Path(__file__).parents[2]
RESULTS = Path("demo-output/mxnet-tests")
FOLDER = "tests/python/unittest"
FILES = (
    *("test_module", "test_executor", "test_multi_device_exec", "test_loss", "test_rnn", "test_init", "test_symbol"),
    *("test_infer_shape", "test_attr", "test_contrib_svrg_module", "test_optimizer"),
)
HOW_TO_GET_TESTS = f"""\
{{source}} has no folder {FOLDER}. MXNet's tests are part of its sources, not of its packages. To get them:

    git clone --depth 1 --branch 1.9.1 https://github.com/apache/mxnet mxnet
    python -m tests.campaigns.mxnet_tests --source mxnet"""


@dataclass(frozen=True)
class SuiteRun:
    file: str
    way: str
    workers: int

    @property
    def path(self) -> Path:
        return RESULTS / f"{self.file}--{self.way}--{self.workers}.xml"


Errors = dict[str, str | None]  # test -> the first line of its error; None if it passed


def run_file(source: Path, run: SuiteRun, only: str, seconds: float) -> None:
    path = (source / FOLDER / f"{run.file}.py").resolve()
    results = run.path.absolute()
    results.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(path.parent)]
    command += ["-p", "no:cacheprovider", "-p", "tests.campaigns.mxnet_suite.plugin", "-W", "ignore", "-n", "1"]
    command += ["--way", run.way, "--partition-over", str(run.workers), "--test-seconds", str(seconds)]
    command += ["--max-worker-restart", "1000", "--junitxml", str(results), "-k", only, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read_errors(run: SuiteRun) -> Errors:
    """Skipped tests are left out."""
    errors: Errors = {}
    for case in ElementTree.parse(run.path).iter("testcase") if run.path.exists() else ():
        failure = next((child for child in case if child.tag in ("failure", "error")), None)
        if failure is not None:
            errors[case.get("name", "")] = (failure.get("message") or "no message").splitlines()[0]
        elif case.find("skipped") is None:
            errors.setdefault(case.get("name", ""), None)
    return errors


def print_table(results: dict[SuiteRun, Errors], console: Console) -> list[str]:
    """Print a row for each run, and the failures of tests that pass on one device. Return the failures without a reason."""
    table = Table("file", "way", "workers", "passed", "failed", "as one device", "explained", "unexplained", box=None)
    failures = Table("file", "test", "way", "workers", "error, or the reason", box=None)
    unexplained = []
    for run, errors in results.items():
        alone = results.get(SuiteRun(run.file, ONE_DEVICE, 1), {})
        double = results.get(SuiteRun(run.file, GLUON_IN_DOUBLE, run.workers), {}) if run.way == GLUON else {}
        failed = {test: error for test, error in errors.items() if error is not None}
        new = [test for test in failed if run.way != ONE_DEVICE and not alone.get(test)]
        reasons = {
            test: find_reason(run.file, test, run.way) or (ROUNDING if double.get(test, "") is None else "")
            for test in new
        }
        without = [test for test, reason in reasons.items() if not reason]
        counts = len(errors) - len(failed), len(failed), len(failed) - len(new), len(new) - len(without), len(without)
        table.add_row(run.file, run.way, str(run.workers), *map(str, counts))
        for test, reason in reasons.items():
            text = f"known: {reason}" if reason else failed[test]
            failures.add_row(run.file, test, run.way, str(run.workers), text)
        unexplained += [f"{run.file}::{test}" for test in without]
    console.print(table)
    if failures.row_count:
        console.print("\nFailures of tests that pass on one device:", failures)
    return unexplained


def list_runs(files: Iterable[str], ways: Iterable[str], workers: Iterable[int]) -> list[SuiteRun]:
    return [
        run
        for file in files
        for run in (SuiteRun(file, ONE_DEVICE, 1), *(SuiteRun(file, way, count) for way in ways for count in workers))
    ]


@click.command(help=__doc__)
@click.argument("files", nargs=-1)
@click.option("--source", type=click.Path(path_type=Path), default=Path("mxnet"), help="MXNet's sources, of 1.9.1.")
@click.option("--as", "ways", type=click.Choice([way for way in WAYS if way != ONE_DEVICE]), multiple=True)
@click.option("--workers", multiple=True, type=int, default=(2, 3))
@click.option("--only", default="", help="Run tests whose names match this expression of pytest -k, again.")
@click.option("--again", is_flag=True, help="Repeat runs that have results, except on one device.")
@click.option("--seconds", default=120, show_default=True, help="Limit of one test.")
@click.option("--table", "is_table", is_flag=True, help="Only print the results in the files.")
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
    console = Console(width=200 if not sys.stdout.isatty() else None, soft_wrap=True)
    names = tuple(Path(file).stem for file in files) or FILES
    runs = list_runs(names, ways or [way for way in WAYS if way != ONE_DEVICE], workers)
    if not is_table:
        if not (source / FOLDER).is_dir():
            raise click.ClickException(HOW_TO_GET_TESTS.format(source=source))
        for run in runs:
            if only or not run.path.exists() or (again and run.way != ONE_DEVICE):
                run_file(source, run, only, seconds)
    results = {run: read_errors(run) for run in runs if run.path.exists()}
    sys.exit(1 if print_table(results, console) else 0)


if __name__ == "__main__":
    main()
