"""Campaigns of cases that are kept in a file while they come in, so that a run that was interrupted goes on."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from io import StringIO
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.shared.commits import name_tree


def read_results(path: Path, case_type: type, result_type: type) -> dict[str, tuple[Any, Any]]:
    """Key of a case -> the case and its last result, of this tree alone. Both are dataclasses; a case has a `key`, and `seeds`, a tuple."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        record = json.loads(line)
        if record.get("tree") != name_tree():
            continue
        case = case_type(**{**record["case"], "seeds": tuple(record["case"]["seeds"])})
        found[case.key] = case, result_type(**record["result"])
    return found


def choose_names(asked: str | None, names: Iterable[str], separator: str = ",") -> list[str]:
    """The names that an option asks for, all where it is left out. Raises BadParameter for one that there is not."""
    known = list(names)
    chosen = asked.split(separator) if asked else known
    if unknown := [name for name in chosen if name not in known]:
        listed = f"{separator} ".join(known)
        raise click.BadParameter(f"there is no {', '.join(unknown)}; models are {listed}")
    return chosen


def run_waiting(
    run: Callable[[Any], tuple[Any, Any]],
    cases: Sequence[Any],
    result_type: type,
    jobs: int,
    path: Path,
    console: Console,
    *,
    cases_of_a_process: int,
) -> None:
    """Run the cases that have no result of this tree in the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = read_results(path, type(cases[0]), result_type) if cases else {}
    waiting = [case for case in cases if case.key not in done]
    run_cases(run, waiting, result_type, jobs, path, console, cases_of_a_process=cases_of_a_process)


def print_problems(results: Mapping[str, tuple[Any, Any]], console: Console) -> bool:
    """A line for each problem; whether there are none."""
    problems = [(case, problem) for case, result in results.values() for problem in result.problems]
    for case, problem in problems:
        console.print(f"{case}, {problem}", markup=False)
    return not problems


def write_document(path: Path, introduction: str, table: Table, *sections: str) -> None:
    """Write a table as text between an introduction and sections of Markdown."""
    console = Console(file=StringIO(), width=160)
    console.print(table)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines() if line.strip()]
    path.write_text("\n".join([introduction, "```text", *lines, "```", *sections, ""]))


def run_cases(
    run: Callable[[Any], tuple[Any, Any]],
    cases: Iterable[Any],
    result_type: type,
    jobs: int,
    path: Path,
    console: Console,
    *,
    cases_of_a_process: int,
) -> None:
    """Run cases in fresh processes and append their results, which have `problems`, to the file. Cases are shown as they print. Where a
    process dies, that is the problem of the case that it ran.
    """
    cases = list(cases)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with path.open("a") as file, Progress(*columns, console=console) as progress:
        task = progress.add_task("cases", total=len(cases))
        for case, result in _run_in_processes(run, cases, result_type, jobs, cases_of_a_process):
            file.write(json.dumps({"tree": name_tree(), "case": asdict(case), "result": asdict(result)}) + "\n")
            file.flush()
            for problem in result.problems:
                progress.console.print(f"{case}, {problem}", style="red", markup=False)
            progress.update(task, advance=1, description=str(case))


def _run_in_processes(
    run: Callable[[Any], tuple[Any, Any]], cases: Iterable[Any], result_type: type, jobs: int, cases_of_a_process: int
) -> Iterator[tuple[Any, Any]]:
    """The cases with their results, as they come in, from so many processes at a time."""
    waiting, fresh = iter(cases), multiprocessing.get_context("spawn")
    busy: dict[Any, tuple[Any, Any, int]] = {}  # connection -> process, its case, and how many it has had
    try:
        while True:
            while len(busy) < jobs and (case := next(waiting, None)) is not None:
                ours, theirs = fresh.Pipe()
                process = fresh.Process(target=_serve, args=(theirs, run), daemon=True)
                process.start()
                theirs.close()
                ours.send(case)
                busy[ours] = process, case, 1
            if not busy:
                return
            for connection in wait(busy):
                process, case, count = busy.pop(connection)
                try:
                    found = connection.recv()
                except (EOFError, ConnectionError):
                    connection.close()
                    process.join()
                    yield case, result_type(problems=[f"the process ended with exit code {process.exitcode}"])
                    continue
                yield found
                following = next(waiting, None) if count < cases_of_a_process else None
                if following is None:
                    connection.close()
                    process.join()
                else:
                    connection.send(following)
                    busy[connection] = process, following, count + 1
    finally:
        for process, _, _ in busy.values():
            process.kill()


def _serve(connection: Any, run: Callable[[Any], tuple[Any, Any]]) -> None:
    """Runs each case that is sent, until no more can be."""
    while True:
        try:
            case = connection.recv()
        except EOFError:
            return
        connection.send(run(case))
