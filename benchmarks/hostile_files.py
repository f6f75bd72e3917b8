"""Breaks files in thousands of ways and reads each: whatever is changed is refused by a TofuError or warned of, and nothing is lost.

    python -m benchmarks.hostile_files                 3,400 files, some minutes
    python -m benchmarks.hostile_files --each 10       fewer of every kind and damage

Each file is read in a process that may take a second and two GiB. What is read is compared with what was saved, or, where a file has no
checksum, with what it says. Exit code 1 where something was let in silently, raised another error, hung or crashed.
"""

from __future__ import annotations

import random
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import click
from rich.console import Console
from rich.table import Table

import tofu
from benchmarks.hostile.damage import BYTES, JSON, exchange
from benchmarks.hostile.good import Kind, list_kinds, make_files, make_module, parameters_of, read_checkpoint

MOST_BYTES, MOST_SECONDS = 2 * 2**30, 10
SLOW_SECONDS = 1.0
REFUSED, EQUAL, WARNED_EQUAL, WARNED = "refused", "the same content", "the same, warned", "another one, warned"
SILENT, RAW, SLOW, CRASHED, LOST = "ANOTHER, SILENT", "ANOTHER ERROR", "SLOW", "CRASHED", "LOST"
GOOD, BAD = (REFUSED, EQUAL, WARNED_EQUAL, WARNED), (SILENT, RAW, SLOW, CRASHED, LOST)


@dataclass(frozen=True)
class Trial:
    """A broken file: `run` reads it and says what happened, with a word about it."""

    kind: str
    damage: str
    run: Callable[[], tuple[str, str]]


def read(load: Callable[[], Any], expected: Any, said: Callable[[], Any] | None) -> tuple[str, str]:
    """What reading a file does. `said` is the content of a file that nothing but itself tells the content of."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = load()
        except tofu.TofuError as error:
            return (REFUSED if time.perf_counter() - started < SLOW_SECONDS else SLOW), str(error)
        except BaseException as error:
            return RAW, f"{type(error).__name__}: {error}"
    if time.perf_counter() - started > SLOW_SECONDS:
        return SLOW, ""
    if found == expected:
        return (WARNED_EQUAL if warned else EQUAL), ""
    if said is not None and said() == found:
        return EQUAL, ""
    return (WARNED if warned else SILENT), str(warned[0].message) if warned else ""


class Reader:
    """Reads broken files beside a module that is being trained, which no file may change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.module = make_module()
        self.before = parameters_of(self.module)
        self.kinds = list_kinds(folder, self.module.optimizer)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.expected = {kind.name: kind.read(kind.path) for kind in self.kinds}
            self.checkpoint = read_checkpoint(folder / "m1")

    def trials(self, each: int, seed: int) -> Iterator[Trial]:
        """The same ones in the same order, every time."""
        for kind in self.kinds:
            good, other = kind.path.read_bytes(), kind.other.read_bytes()
            ways = {**BYTES, **(JSON if kind.is_json else {}), "a part of another file": None}
            for name, way in ways.items():
                for number in range(each):
                    draw = random.Random(f"{seed} {kind.name} {name} {number}")
                    content = exchange(good, other, draw) if way is None else way(good, draw)
                    yield Trial(kind.name, name, lambda kind=kind, content=content: self._read(kind, content))
        for files in (("params",), ("states",), ("params", "states"), ("symbol",)):
            for number in range(each):
                yield Trial("checkpoint", f"{' and '.join(files)} of another epoch", lambda f=files: self._mix(f))
                if number >= each // 4:
                    break

    def _read(self, kind: Kind, content: bytes) -> tuple[str, str]:
        path = self.folder / f"broken{kind.path.suffix}"
        path.write_bytes(content)
        happened, why = read(
            lambda: kind.read(path), self.expected[kind.name], kind.says and (lambda: kind.says(content))
        )
        if happened == REFUSED and kind.path.suffix in (".params", ".states"):
            load = self.module.load_params if kind.path.suffix == ".params" else self.module.load_optimizer_states
            happened, why = self._refuse_into_the_module(load, path)
        return happened, why

    def _refuse_into_the_module(self, load: Callable[[str], None], path: Path) -> tuple[str, str]:
        happened, why = read(lambda: load(str(path)), None, None)
        return (happened, why) if parameters_of(self.module) == self.before else (LOST, "the module's parameters")

    def _mix(self, files: tuple[str, ...]) -> tuple[str, str]:
        """A checkpoint some of whose files are those of another save, as a kill between two files leaves them."""
        for name in ("symbol.json", "0000.params", "0000.states"):
            epoch = "m2" if name.split(".")[-1] in files or name.split(".")[0] in files else "m1"
            (self.folder / f"mixed-{name}").write_bytes((self.folder / f"{epoch}-{name}").read_bytes())
        expected = self.checkpoint if files == ("symbol",) else read_checkpoint(self.folder / "m2")
        return read(lambda: read_checkpoint(self.folder / "mixed"), expected, None)


def run_bounded(folder: Path, each: int, seed: int, note: Callable[[Trial | None, str, str], None]) -> None:
    """Run all trials, each within the limits; a process that dies is followed by another, which goes on behind the file."""
    begin, ended = 0, False
    while not ended:
        command = [sys.executable, "-m", "benchmarks.hostile_files", "--each", str(each), "--seed", str(seed)]
        process = Popen(
            [*command, "--folder", str(folder), "--begin", str(begin)], stdout=PIPE, stderr=DEVNULL, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            if line == "end\n":
                ended = True
            elif line.count("\t") == 3:
                kind, damage, happened, why = line.rstrip("\n").split("\t")
                note(Trial(kind, damage, tuple), happened, why)
                begin += 1
        if process.wait() and not ended:
            note(None, CRASHED, f"file {begin}: status {process.returncode}")
            begin += 1


def _run_from(folder: Path, each: int, seed: int, begin: int) -> None:
    """The work of one process: a line for each file."""
    reader = Reader(folder)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, resource.RLIM_INFINITY))
    for number, trial in enumerate(reader.trials(each, seed)):
        if number < begin:
            continue
        signal.alarm(MOST_SECONDS)
        happened, why = trial.run()
        signal.alarm(0)
        why = " ".join(why.split())[:300].encode("ascii", "backslashreplace").decode()
        print(trial.kind, trial.damage, happened, why, sep="\t", flush=True)
    print("end", flush=True)


def _check_nothing_is_lost(folder: Path, before: dict[Path, bytes]) -> list[str]:
    return [str(path) for path, content in before.items() if path.read_bytes() != content]


@click.command()
@click.option("--each", type=click.IntRange(1), default=35, show_default=True, help="Files of every kind and damage.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--folder", type=click.Path(path_type=Path), hidden=True, help="Of the good files: read broken ones here."
)
@click.option("--begin", default=0, hidden=True, help="The first file to read.")
@click.option("--show", is_flag=True, help="Show one message of each kind and damage.")
def main(each: int, seed: int, folder: Path | None, begin: int, show: bool) -> None:
    """Read broken files of all kinds, and print what happened."""
    if folder is not None:
        _run_from(folder, each, seed, begin)
        return
    started = time.perf_counter()
    counts: Counter[tuple[str, str, str]] = Counter()
    failures: list[str] = []
    shown: dict[tuple[str, str], str] = {}

    def note(trial: Trial | None, happened: str, why: str) -> None:
        kind, damage = (trial.kind, trial.damage) if trial else ("?", "?")
        counts[kind, damage, happened] += 1
        if happened in BAD:
            failures.append(f"{kind}, {damage}: {happened}: {why}")
        elif why:
            shown.setdefault((kind, damage), why)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder)
        before = {path: path.read_bytes() for path in folder.iterdir()}
        run_bounded(folder, each, seed, note)
        failures += [f"{path} was changed" for path in _check_nothing_is_lost(folder, before)]
    _print(counts, time.perf_counter() - started)
    for pair, why in shown.items() if show else ():
        click.echo(f"{', '.join(pair)}: {why}")
    click.echo("\n".join(failures))
    sys.exit(bool(failures))


def _print(counts: Counter[tuple[str, str, str]], seconds: float) -> None:
    table = Table("file", "what was done", "files", *GOOD, "else", "lost", box=None, pad_edge=False)
    pairs = dict.fromkeys((kind, damage) for kind, damage, _ in counts)
    for kind, damage in pairs:
        row = [counts[kind, damage, happened] for happened in (*GOOD, *BAD)]
        table.add_row(kind, damage, *map(str, (sum(row), *row[: len(GOOD)], sum(row[len(GOOD) :]), row[-1])))
    total = [sum(n for (_, _, h), n in counts.items() if h == happened) for happened in (*GOOD, *BAD)]
    table.add_row("all", "", *map(str, (sum(total), *total[: len(GOOD)], sum(total[len(GOOD) :]), total[-1])))
    Console(width=150).print(table)
    click.echo(f"{sum(total):,} files in {seconds:.0f} s")


if __name__ == "__main__":
    main()
