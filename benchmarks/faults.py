"""Everything that goes wrong while a model trains: what was done, what happened, what was lost.

    python -m benchmarks.faults [GROUP ...]

Faults by groups: interrupts, operators, misuse, limits, processes; all of them if none is named. Each group runs in a process of its
own. Fails where anything was lost: a weight that differs in one bit from an undisturbed run, a file that is not whole, an error that
does not say what it is, a hang.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

GROUPS = ("interrupts", "operators", "misuse", "limits", "processes")
GROUP_SECONDS = 1200
NOTHING = "nothing"


@dataclass(frozen=True)
class Outcome:
    """What one fault came to."""

    kind: str
    place: str
    happened: str
    lost: str
    seconds: float


def run_group(group: str, every: int = 1, first: int = 0) -> Iterator[Outcome]:
    """Try the faults of a group from the first on, or every so many of them, one after the other, in this process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have what runs in the background ignore it
    for fault in importlib.import_module(f"tests.campaigns.fault_cases.{group}").FAULTS[first::every]:
        started = time.perf_counter()
        with TemporaryDirectory() as folder:
            try:
                happened, lost = fault.run(Path(folder)), NOTHING
            except (Exception, KeyboardInterrupt) as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                happened, lost = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}", str(error)[:300]
        yield Outcome(fault.kind, fault.place, happened, lost, time.perf_counter() - started)


def collect(group: str) -> list[Outcome]:
    """Try a group in a process of its own. Where that ends without a word, this is the fault's outcome, and another goes on after it."""
    count, outcomes = len(importlib.import_module(f"tests.campaigns.fault_cases.{group}").FAULTS), []
    while len(outcomes) < count:
        found, end = collect_from(group, len(outcomes))
        outcomes += found
        if end:
            outcomes.append(
                Outcome(group, f"fault {len(outcomes) + 1}", f"the process ended with {end}", "the process", 0.0)
            )
    return outcomes


def collect_from(group: str, first: int) -> tuple[list[Outcome], str]:
    """The outcomes of one process, and how it ended where it ended badly."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MXNET_SUBGRAPH_VERBOSE": "0"}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.faults", "--here", group, "--first", str(first)]
    try:
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=GROUP_SECONDS, check=False
        )
        text, end = ended.stdout, f"{ended.returncode}: {ended.stderr[-300:]}" if ended.returncode else ""
    except subprocess.TimeoutExpired as error:
        text, end = (error.stdout or b"").decode(), f"a hang of {GROUP_SECONDS} s"
    return [Outcome(**json.loads(line)) for line in text.splitlines() if line.startswith("{")], end


def print_table(outcomes: list[Outcome]) -> None:
    """A line for each fault, then the counts."""
    for outcome in outcomes:
        happened = " ".join(outcome.happened.split())
        print(f"{outcome.kind:16} {outcome.place:42.42} {happened:100.100} {outcome.lost}")
    kinds = Counter(outcome.kind for outcome in outcomes)
    lost = [outcome for outcome in outcomes if outcome.lost != NOTHING]
    print(f"\n{len(outcomes)} faults: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")
    print(f"lost in {len(lost)} of them; {sum(outcome.seconds for outcome in outcomes):.0f} s")


def main() -> None:
    """Try the groups named, print the table, fail where something was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", default=GROUPS, metavar="GROUP")
    parser.add_argument("--here", choices=GROUPS, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        for outcome in run_group(arguments.here, first=arguments.first):
            print(json.dumps(asdict(outcome)), flush=True)
        return
    outcomes = [outcome for group in arguments.groups for outcome in collect(group)]
    print_table(outcomes)
    if any(outcome.lost != NOTHING for outcome in outcomes):
        raise SystemExit("FAILED")


if __name__ == "__main__":
    main()
