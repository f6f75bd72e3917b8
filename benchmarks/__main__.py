"""List of the benchmarks and their commands, which `make bench` prints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

FOLDER = Path(__file__).parent


def list_benchmarks() -> Iterator[tuple[str, str]]:
    for path in sorted(FOLDER.rglob("*.py")):
        source = path.read_text()
        if path != Path(__file__) and '__name__ == "__main__"' in source:
            parts = path.relative_to(FOLDER.parent).with_suffix("").parts
            contract = ast.get_docstring(ast.parse(source)) or ""
            yield ".".join(parts).removesuffix(".__main__"), contract.partition("\n\n")[0].replace("\n", " ")


def main() -> None:
    table = Table(Column("command", no_wrap=True), "measures", title="Benchmarks", title_justify="left", box=None)
    for module, measures in list_benchmarks():
        table.add_row(f"python -m {module}", measures)
    Console().print(table)


if __name__ == "__main__":
    main()
