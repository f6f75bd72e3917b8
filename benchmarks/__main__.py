"""List of the benchmarks and their commands, which `make bench` prints."""

from __future__ import annotations

import ast
from pathlib import Path

from rich.console import Console
from rich.table import Table


def main() -> None:
    table = Table("command", "measures", title="Benchmarks", title_justify="left", box=None)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        source = path.read_text()
        if path.stem != "__main__" and '__name__ == "__main__"' in source:
            contract = ast.get_docstring(ast.parse(source)) or ""
            table.add_row(f"python -m benchmarks.{path.stem}", contract.partition("\n\n")[0].replace("\n", " "))
    Console().print(table)


if __name__ == "__main__":
    main()
