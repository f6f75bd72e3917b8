"""CSV files of the evaluation, and the commit with which each part was measured."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

Row = TypeVar("Row")
COMMITS = "commits.json"


def write_table(path: Path, rows: Iterable[Any]) -> None:
    """Write a CSV file. Rows are objects of one dataclass. Floats get six digits."""
    values = [{name: _format(value) for name, value in asdict(row).items()} for row in rows]
    with open(path, "w", newline="") as file:
        if values:
            writer = csv.DictWriter(file, values[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(values)


def read_table(path: Path, kind: type[Row]) -> list[Row]:
    with open(path, newline="") as file:
        return [kind(**dict(_parse(kind, line))) for line in csv.DictReader(file)]


def _format(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _parse(kind: type[Any], line: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    types = get_type_hints(kind)
    for field in fields(kind):
        parse = types[field.name]
        yield field.name, line[field.name] == "True" if parse is bool else parse(line[field.name])


def read_commits(folder: Path) -> dict[str, str]:
    path = folder / COMMITS
    return dict(json.loads(path.read_text())) if path.exists() else {}


def write_commit(folder: Path, part: str, commit: str) -> None:
    commits = {**read_commits(folder), part: commit}
    (folder / COMMITS).write_text(json.dumps(dict(sorted(commits.items())), indent=1) + "\n")
