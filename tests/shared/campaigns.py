"""Long runs of many cases in processes that may die."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import asdict
from fnmatch import filter as filter_names
from io import StringIO
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.shared.commits import name_tree


def read_results(path: Path, case_type: type, result_type: type) -> dict[str, tuple[Any, Any]]:
    """Return {key: (case, result)} for all cases with a result of this source tree. Both are dataclasses."""
    results = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        record = json.loads(line)
        if record.get("tree") != name_tree():
            continue
        fields = {name: tuple(v) if isinstance(v, list) else v for name, v in record["case"].items()}
        case = case_type(**fields)
        results[case.key] = case, result_type(**record["result"])
    return results


def choose_names(chosen: str | None, names: Iterable[str], separator: str = ",") -> list[str]:
    """Return the names that match patterns such as "rnn*,lstm". Return all names for None."""
    known = list(names)
    matches = {pattern: filter_names(known, pattern) for pattern in chosen.split(separator)} if chosen else {"*": known}
    if unknown := [pattern for pattern, matching in matches.items() if not matching]:
        raise click.BadParameter(f"there is no {', '.join(unknown)}; known are {f'{separator} '.join(known)}")
    return list(dict.fromkeys(name for matching in matches.values() for name in matching))


def run_waiting(
    run: Callable[[Any], tuple[Any, Any]],
    cases: Iterable[Any],
    result_type: type,
    jobs: int,
    path: Path,
    console: Console,
    *,
    cases_of_a_process: int,
) -> None:
    """Run all cases without a result of this source tree in new processes. Append the results to the file `path`.

    If a process dies, its exit code is the problem of its case.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    recorded = (json.loads(line) for line in path.read_text().splitlines())
    done = [record["case"] for record in recorded if record.get("tree") == name_tree()]
    waiting: Iterable[Any] = (case for case in cases if json.loads(json.dumps(asdict(case))) not in done)
    if isinstance(cases, Sized):
        waiting = list(waiting)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with path.open("a") as file, Progress(*columns, console=console) as progress:
        task = progress.add_task("cases", total=len(waiting) if isinstance(waiting, Sized) else None)
        for case, result in _run_in_processes(run, waiting, result_type, jobs, cases_of_a_process):
            file.write(json.dumps({"tree": name_tree(), "case": asdict(case), "result": asdict(result)}) + "\n")
            file.flush()
            for problem in result.problems:
                progress.console.print(f"{case}, {problem}", style="red", markup=False)
            progress.update(task, advance=1, description=str(case))


def print_problems(results: Mapping[str, tuple[Any, Any]], console: Console) -> bool:
    """Print all problems. Return True if there are none."""
    problems = [(case, problem) for case, result in results.values() for problem in result.problems]
    for case, problem in problems:
        console.print(f"{case}, {problem}", markup=False)
    return not problems


def write_document(path: Path, introduction: str, table: Table, *sections: str) -> None:
    shown = StringIO()
    Console(file=shown, width=160).print(table)
    lines = [line.rstrip() for line in shown.getvalue().splitlines() if line.strip()]
    path.write_text("\n".join([introduction, "```text", *lines, "```", *sections, ""]))


def _run_in_processes(
    run: Callable[[Any], tuple[Any, Any]], cases: Iterable[Any], result_type: type, jobs: int, cases_of_a_process: int
) -> Iterator[tuple[Any, Any]]:
    waiting, context = iter(cases), multiprocessing.get_context("spawn")
    busy: dict[Connection, tuple[Any, Any, int]] = {}  # connection -> process, its case, and its number of cases
    try:
        while True:
            while len(busy) < jobs and (case := next(waiting, None)) is not None:
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, run))
                process.start()
                theirs.close()
                ours.send(case)
                busy[ours] = process, case, 1
            if not busy:
                return
            for connection in cast(list[Connection], wait(busy)):
                process, case, count = busy.pop(connection)
                try:
                    result = connection.recv()
                except (EOFError, ConnectionError):
                    connection.close()
                    process.join()
                    yield case, result_type(problems=[f"the process ended with exit code {process.exitcode}"])
                    continue
                yield result
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


def _serve(connection: Connection, run: Callable[[Any], tuple[Any, Any]]) -> None:
    while True:
        try:
            case = connection.recv()
        except EOFError:
            return
        connection.send(run(case))
