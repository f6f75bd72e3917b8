"""Plants bugs, one at a time, in a copy of the tree, and runs the tests that should notice; a bug that none notices is a survivor.

    python -m benchmarks.mutations            goes on where it was stopped
    python -m benchmarks.mutations --summary  what became of each

The bugs are the tables of `benchmarks/mutation/mutants/*.toml`. What is tested is a commit, in `build/mutations`: nothing that is not
committed, and nothing is changed in your files. Before a bug is planted its tests have to pass without it.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import count, islice
from pathlib import Path
from queue import Queue
from threading import Lock

import click
from rich.console import Console

from benchmarks.mutation.mutants import Mutant, read_mutants
from benchmarks.mutation.results import CAUGHT, Result, Results, draw_mutants, draw_results, judge
from benchmarks.mutation.tree import ROOT, BrokenError, Tree, has_changed, resolve_commit

RESULTS = ROOT / "benchmarks/mutation/results.jsonl"
LONGEST_SECONDS = 3600  # of a test without a bug
SPARE_SECONDS, SPARE_FACTOR = (
    120,
    5,
)  # how much longer than without a bug tests may take before they count as never ending


class Campaign:
    """The bugs tried at one commit.

    Every test runs once without a bug, before the first bug that it should notice, and has to pass.
    """

    def __init__(self, commit: str, results: Results, *, is_lenient: bool) -> None:
        self.commit = commit
        self._results = results
        self._is_lenient = is_lenient
        self._lock = Lock()

    def try_mutant(self, tree: Tree, mutant: Mutant) -> Result:
        """Plant one bug and run its tests."""
        begin = time.monotonic()
        try:
            with self._lock:
                seconds = sum(self._run_without_bug(tree, test) for test in mutant.tests)
            with tree.planted(mutant):
                verdict = tree.run(mutant.tests, SPARE_SECONDS + SPARE_FACTOR * seconds)
        except BrokenError as error:
            seconds = round(time.monotonic() - begin, 1)
            return Result(self.commit, mutant.name, "error", "", seconds, mutant.digest, str(error))
        return judge(self.commit, mutant, verdict.outcome, verdict.test, verdict.seconds)

    def _run_without_bug(self, tree: Tree, test: str) -> float:
        """How long it takes. Raises BrokenError where it fails."""
        known = self._results.find_clean(self.commit, test)
        if known is None and self._is_lenient:
            earlier = self._results.list_clean(test)
            known = next((r for r in earlier if not has_changed(r.commit, self.commit, [file_of(test)])), None)
        if known is None:
            verdict = tree.run([test], LONGEST_SECONDS)
            known = Result(self.commit, "", verdict.outcome, test, round(verdict.seconds, 1), "")
            self._results.add(known)
        if known.outcome != "passed":
            raise BrokenError(f"without any bug {test} {known.outcome}")
        return known.seconds


def file_of(test: str) -> str:
    """The file of a test as a bug names it."""
    return test.split("::")[0].split(" ")[0]


def list_open(mutants: Sequence[Mutant], results: Results, commit: str, *, is_lenient: bool) -> list[Mutant]:
    """The bugs without a result. Leniently, one of another commit holds where neither the file nor the tests have changed since."""
    waiting = []
    for mutant in mutants:
        known = results.find(commit, mutant)
        if known is not None and known.outcome != "error":
            continue
        old = next((result for result in results.history(mutant) if result.outcome in CAUGHT), None)
        if (
            is_lenient
            and old is not None
            and not has_changed(old.commit, commit, [mutant.file, *map(file_of, mutant.tests)])
        ):
            results.add(replace(old, commit=commit, detail=f"at {old.commit[:12]}"))
        else:
            waiting.append(mutant)
    return waiting


def run_campaign(campaign: Campaign, mutants: Sequence[Mutant], results: Results, jobs: int, console: Console) -> None:
    """Try the bugs, `jobs` at a time, each in a tree of its own, and write down what became of them."""
    candidates = (Tree(ROOT / f"build/mutations/tree-{number}") for number in count())  # other campaigns may be running
    trees = list(islice((tree for tree in candidates if tree.take()), min(jobs, len(mutants))))
    free: Queue[Tree] = Queue()
    for tree in trees:
        tree.check_out(campaign.commit)
        free.put(tree)

    def run_one(mutant: Mutant) -> Result:
        tree = free.get()
        try:
            return campaign.try_mutant(tree, mutant)
        finally:
            free.put(tree)

    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(run_one, mutant) for mutant in mutants]
        try:
            for number, future in enumerate(as_completed(running), 1):
                result = future.result()
                results.add(result)
                by = result.test or result.detail
                line = f"{number}/{len(mutants)} {result.mutant}: {result.outcome} {by} ({result.seconds:.0f} s)"
                console.print(line, markup=False, highlight=False, soft_wrap=True)
        except BaseException:  # what was ended is no result
            pool.shutdown(wait=False, cancel_futures=True)
            for tree in trees:
                tree.stop()
            raise


@click.command(help=__doc__)
@click.option("--list", "is_list", is_flag=True, help="Print the bugs and end.")
@click.option(
    "--summary", is_flag=True, help="Print what became of each at this commit and end; fails if one is not caught."
)
@click.option("--only", multiple=True, help="Names of bugs, with * and ? where wanted.")
@click.option("--jobs", default=1, show_default=True, help="Bugs tried at a time.")
@click.option("--commit", default="HEAD", show_default=True, help="What is tested.")
@click.option("--again", is_flag=True, help="Try bugs once more that have a result.")
@click.option(
    "--keep-unchanged",
    is_flag=True,
    help="Results of other commits hold where a bug's file and tests are as they were.",
)
@click.option("--results", "path", type=Path, default=RESULTS, help="Where results are written.")
def main(
    is_list: bool,
    summary: bool,
    only: tuple[str, ...],
    jobs: int,
    commit: str,
    again: bool,
    keep_unchanged: bool,
    path: Path,
) -> None:
    mutants = [m for m in read_mutants() if not only or any(fnmatchcase(m.name, pattern) for pattern in only)]
    console = Console(width=None if sys.stdout.isatty() else 200)
    if is_list:
        console.print(draw_mutants(mutants))
        return
    commit, results = resolve_commit(commit), Results(path)
    if not summary:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the tests that are running, as Ctrl-C does
        waiting = mutants if again else list_open(mutants, results, commit, is_lenient=keep_unchanged)
        try:
            run_campaign(Campaign(commit, results, is_lenient=keep_unchanged), waiting, results, jobs, console)
        finally:
            results.tidy()
    table, words, is_clean = draw_results(mutants, results, commit)
    console.print(table)
    console.print(words)
    sys.exit(not is_clean)


if __name__ == "__main__":
    main()
