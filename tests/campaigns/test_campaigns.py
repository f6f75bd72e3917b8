"""Campaigns keep a result of each case, of one whose process dies too."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from io import StringIO

import pytest
from rich.console import Console

from tests.shared.campaigns import run_cases


@dataclass(frozen=True)
class Case:
    """A number to be squared; a process dies of a negative one."""

    number: int


@dataclass
class Result:
    """Its square, and the process that squared it."""

    square: int = 0
    process: int = 0
    problems: list[str] = field(default_factory=list)


def square(case):
    """Run in another process."""
    if case.number < 0:
        os._exit(7)
    return case, Result(case.number**2, os.getpid())


@pytest.mark.parametrize("jobs", [1, 3])
def test_each_case_has_a_result(tmp_path, jobs):
    path = tmp_path / "results.jsonl"
    path.touch()
    numbers = [1, 2, -3, 4, -5, 6, 7]
    run_cases(square, map(Case, numbers), Result, jobs, path, Console(file=StringIO()), cases_of_a_process=2)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    found = {line["case"]["number"]: line["result"] for line in lines}
    assert sorted(found) == sorted(numbers)
    for number, result in found.items():
        if number < 0:
            assert result["problems"] == ["the process ended with exit code 7"]
        else:
            assert (result["square"], result["problems"]) == (number**2, [])
    processes = [result["process"] for result in found.values() if result["process"]]
    assert max(map(processes.count, processes)) <= 2
