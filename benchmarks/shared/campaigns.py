"""Campaigns of cases that are kept in a file while they come in, so that a run that was interrupted goes on."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.shared.commits import name_tree


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


def run_cases(
    run: Callable[[Any], tuple[Any, Any]],
    cases: Iterable[Any],
    jobs: int,
    path: Path,
    console: Console,
    *,
    cases_of_a_process: int,
) -> None:
    """Run cases in fresh processes and append their results, which have `problems`, to the file. Cases are shown as they print."""
    cases = list(cases)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    fresh = multiprocessing.get_context("spawn")
    with (
        path.open("a") as file,
        fresh.Pool(jobs, maxtasksperchild=cases_of_a_process) as pool,
        Progress(*columns, console=console) as progress,
    ):
        task = progress.add_task("cases", total=len(cases))
        for case, result in pool.imap_unordered(run, cases):
            file.write(json.dumps({"tree": name_tree(), "case": asdict(case), "result": asdict(result)}) + "\n")
            file.flush()
            for problem in result.problems:
                progress.console.print(f"{case}, {problem}", style="red", markup=False)
            progress.update(task, advance=1, description=str(case))
