"""Many seeds in processes of their own, which MXNet may end; results go into a file while they come in."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.campaigns.fuzz.models import choose_kind, choose_workers, make_sample
from tests.campaigns.fuzz.trial import Failure, Outcome, describe, try_sample

MODELS_OF_A_PROCESS = 150  # kernels, kept analyses and fragments of memory add up
LONGEST_SECONDS = 300  # of one model, on a machine that does other things as well


@dataclass
class Record:
    """One model: its seed, kind and number of workers, and what it came to. `stage` says how far it got."""

    commit: str
    focus: str
    seed: int
    kind: str
    stage: str = "done"
    workers: int = 0
    plans: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    disputes: list[dict[str, Any]] = field(default_factory=list)
    taken: list[tuple[str, str, int]] = field(default_factory=list)
    seconds: float = 0.0


def find_commit() -> str:
    """What is run: the commit, and a plus where files differ from it."""
    git = ["git", "-C", str(Path(__file__).parent)]
    commit = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True).stdout.strip()
    return (commit or "unknown") + ("+" if changed else "")


def run_seed(commit: str, focus: str, seed: int, ready: Callable[[], None]) -> Record:
    """One model under its plans; `ready` is called once the model is there and has run on one device."""
    record = Record(commit, focus, seed, choose_kind(seed, focus))
    try:
        sample = make_sample(seed, record.kind)
        outcome = try_sample(sample, choose_workers(seed, record.kind), seed, ready=ready)
    except Exception as error:  # MXNet refuses the model on one device
        record.stage = f"no model: {describe(error)}: {str(error).strip().splitlines()[-1][:300]}"
        return record
    return record_outcome(record, outcome)


def record_outcome(record: Record, outcome: Outcome) -> Record:
    """The record with what its model came to."""
    record.workers, record.seconds = outcome.workers, outcome.seconds
    record.plans, record.refused = dict(outcome.plans), dict(outcome.refused)
    record.failures, record.disputes = list(map(_plain, outcome.failures)), list(map(_plain, outcome.disputes))
    record.taken = [(op, axis, count) for (op, axis), count in sorted(outcome.taken.items())]
    return record


def _plain(failure: Failure) -> dict[str, Any]:
    return {**vars(failure), "message": failure.message[:2000]}


def read_records(path: Path) -> Iterator[Record]:
    for line in path.read_text().splitlines() if path.exists() else ():
        yield Record(**json.loads(line))


def run_campaign(
    path: Path,
    focus: str,
    seeds: Iterator[int],
    jobs: int,
    until: float,
    report: Callable[[Record], None],
) -> None:
    """Run seeds until there are no more, or it is later than `until` (of `time.monotonic`); those in the file at this commit are done."""
    commit = find_commit()
    done = {record.seed for record in read_records(path) if record.commit == commit and record.focus == focus}
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = (seed for seed in seeds if seed not in done)
    crew = [_Member(commit, focus) for _ in range(jobs)]
    try:
        with path.open("a") as file:
            for record in _collect(crew, waiting, until):
                file.write(json.dumps(vars(record)) + "\n")
                file.flush()
                report(record)
    finally:
        for member in crew:
            member.stop()


def _collect(crew: Sequence[_Member], seeds: Iterator[int], until: float) -> Iterator[Record]:
    while True:
        for member in crew:
            if member.seed is None and time.monotonic() < until and (seed := next(seeds, None)) is not None:
                member.give(seed)
        busy = [member for member in crew if member.seed is not None]
        if not busy:
            return
        wait([member.connection for member in busy], timeout=1.0)
        yield from (record for member in busy if (record := member.take()) is not None)


class _Member:
    """A process that runs one seed after the other, and is replaced when it is worn out or has died."""

    def __init__(self, commit: str, focus: str) -> None:
        self.commit, self.focus = commit, focus
        self.seed: int | None = None
        self.process: Any = None
        self.connection: Connection
        self.count = 0
        self.started = 0.0
        self.is_ready = False  # whether the model is there and runs on one device, and Tofu has it

    def give(self, seed: int) -> None:
        if self.process is None or self.count >= MODELS_OF_A_PROCESS:
            self.stop()
            fresh = multiprocessing.get_context("spawn")
            self.connection, other = fresh.Pipe()
            self.process, self.count = fresh.Process(target=_serve, args=(other, self.commit, self.focus)), 0
            self.process.start()
            other.close()
        self.connection.send(seed)
        self.is_ready = False
        self.seed, self.started, self.count = seed, time.monotonic(), self.count + 1

    def take(self) -> Record | None:
        """The record of the seed that is done, or of how the process ended."""
        assert self.seed is not None
        stage = ""
        try:
            while self.connection.poll():
                record: Record | None = self.connection.recv()
                if record is not None:
                    self.seed = None
                    return record
                self.is_ready = True
            if time.monotonic() - self.started > LONGEST_SECONDS:
                stage = "hangs"
        except EOFError:
            self.process.join()
            stage = f"process ended with {self.process.exitcode}"
        if not stage:
            return None
        record = Record(self.commit, self.focus, self.seed, choose_kind(self.seed, self.focus), stage)
        if self.is_ready:
            record.failures = [{"kind": stage, "plan": "?", "asked": {}, "message": stage, "workers": 0}]
        else:  # in MXNet alone
            record.stage = f"no model: {stage} while it was drawn or ran on one device"
        self.stop()
        return record

    def stop(self) -> None:
        if self.process is not None:
            self.connection.close()
            self.process.join(timeout=5)
            if self.process.is_alive():
                self.process.kill()
                self.process.join()
        self.process = self.seed = None


def _serve(connection: Connection, commit: str, focus: str) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)  # MXNet's log
    while True:
        try:
            seed = connection.recv()
        except EOFError:
            os._exit(0)  # MXNet's threads need not be waited for
        connection.send(run_seed(commit, focus, seed, lambda: connection.send(None)))
