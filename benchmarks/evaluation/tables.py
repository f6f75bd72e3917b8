"""Tables as CSV files: one line for each frozen dataclass, read back as what was written."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

Row = TypeVar("Row")


def write_table(path: Path, rows: Iterable[Any]) -> None:
    """One line for each row, all of one dataclass of numbers, words and truth values. Fractions have six digits."""
    values = [{name: _show(value) for name, value in asdict(row).items()} for row in rows]
    with open(path, "w", newline="") as file:
        if values:
            writer = csv.DictWriter(file, values[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(values)


def read_table(path: Path, kind: type[Row]) -> list[Row]:
    """The rows that `write_table` wrote."""
    with open(path, newline="") as file:
        return [kind(**dict(_parse(kind, line))) for line in csv.DictReader(file)]


def _show(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _parse(kind: type[Any], line: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    types = get_type_hints(kind)
    for field in fields(kind):
        read = types[field.name]
        yield field.name, line[field.name] == "True" if read is bool else read(line[field.name])
