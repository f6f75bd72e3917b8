"""What became of each planted bug: a file of JSON lines, keyed by commit and bug, to which a campaign adds and from which it goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

from rich.table import Table

from benchmarks.mutation.mutants import Mutant

CAUGHT = ("caught", "timeout")
COLOURS = {"caught": "green", "timeout": "green", "equivalent": "dim", "survived": "red", "error": "red"}


@dataclass(frozen=True)
class Result:
    """What became of one bug at one commit; with no bug, "" for its name, what one test said.

    Attributes
    ----------
    outcome
        "caught", "timeout" (caught too: the tests never ended), "survived", "equivalent" (survived, and why is proved), or "error", which
        says nothing of the tests: it did not apply, compile or import.
    test
        The first that failed.
    seconds
        Of building and testing.
    digest
        Of what was planted.
    detail
        Of an error.
    """

    commit: str
    mutant: str
    outcome: str
    test: str
    seconds: float
    digest: str
    detail: str = ""


class Results:
    """The file, and the last line of it about each bug at each commit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        lines = path.read_text().splitlines() if path.exists() else []
        self._known: dict[tuple[str, str], Result] = {}
        self._clean: dict[tuple[str, str], Result] = {}
        for line in lines:
            self._remember(Result(**json.loads(line)))

    def _remember(self, result: Result) -> None:
        if result.mutant:
            self._known.pop((result.commit, result.mutant), None)  # the latest stands last
            self._known[result.commit, result.mutant] = result
        else:
            self._clean[result.commit, result.test] = result

    def find_clean(self, commit: str, test: str) -> Result | None:
        """What a test said without a bug, if it passed."""
        result = self._clean.get((commit, test))
        return result if result is not None and result.outcome == "passed" else None

    def find(self, commit: str, mutant: Mutant) -> Result | None:
        """What is known of a bug as it is planted now."""
        result = self._known.get((commit, mutant.name))
        return result if result is not None and result.digest == mutant.digest else None

    def list_clean(self, test: str) -> list[Result]:
        """What it said without a bug at all commits where it passed, the latest first."""
        found = [r for (_, name), r in self._clean.items() if name == test and r.outcome == "passed"]
        return found[::-1]

    def history(self, mutant: Mutant) -> list[Result]:
        """What is known of it at all commits, the latest first."""
        found = [r for (_, name), r in self._known.items() if name == mutant.name and r.digest == mutant.digest]
        return found[::-1]

    def tidy(self) -> None:
        """Keep the last line about each bug and each test, in the order of their names: the file is kept with the sources."""
        if not self.path.exists():
            return
        with self._lock:  # another campaign may have added to the file
            results = [Result(**json.loads(line)) for line in self.path.read_text().splitlines()]
            last = {(result.mutant, "" if result.mutant else result.test): result for result in results}
            self.path.write_text("".join(json.dumps(asdict(last[key])) + "\n" for key in sorted(last)))

    def add(self, result: Result) -> None:
        """Write a line, at once: a campaign may be stopped at any time."""
        with self._lock:
            self._remember(result)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(asdict(result)) + "\n")


def judge(commit: str, mutant: Mutant, outcome: str, test: str, seconds: float) -> Result:
    """The result of a bug, given what its tests said; a bug that is proved to change nothing must not be noticed."""
    outcome = {"failed": "caught", "passed": "survived"}.get(outcome, outcome)
    detail = ""
    if mutant.proof:
        detail = "" if outcome == "survived" else f"it is proved to change nothing, and was {outcome}: mend the proof"
        outcome = "equivalent" if outcome == "survived" else "error"
    return Result(commit, mutant.name, outcome, test, round(seconds, 1), mutant.digest, detail)


def draw_results(mutants: Sequence[Mutant], results: Results, commit: str) -> tuple[Table, str, bool]:
    """A row for each bug, the counts in words, and whether all are caught or proved to change nothing."""
    table = Table("bug", "what it breaks", "outcome", "by", "seconds", title=f"Mutations of {commit[:12]}", box=None)
    outcomes: Counter[str] = Counter()
    for mutant in mutants:
        result = results.find(commit, mutant)
        outcome = result.outcome if result else "not run"
        outcomes[outcome] += 1
        colour = COLOURS.get(outcome, "yellow")
        test, seconds = (result.test or result.detail, f"{result.seconds:.0f}") if result else ("", "")
        table.add_row(mutant.name, mutant.breaks, f"[{colour}]{outcome}[/]", test, seconds)
    words = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    return table, f"{len(mutants)} bugs: {words}", not outcomes.keys() - {*CAUGHT, "equivalent"}


def draw_mutants(mutants: Iterable[Mutant]) -> Table:
    """What is planted where, and which tests should notice."""
    table = Table("bug", "file", "what it breaks", "tests", title="Planted bugs", box=None)
    for mutant in mutants:
        table.add_row(mutant.name, mutant.file, mutant.breaks, "\n".join(mutant.tests))
    return table
