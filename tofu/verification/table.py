"""Print the results of a verification as a table, with a row for each operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rich.table import Table

from tofu.verification.report import NodeReport


def tabulate(noun: str, reports: Iterable[tuple[NodeReport, int, bool]]) -> Table:
    """Return a table of the verified operators.

    `reports` has a tuple for each operator: the report, the number of signatures, and True if there were problems.
    """
    signatures: dict[str, int] = defaultdict(int)
    errors: dict[str, float] = defaultdict(float)
    axes: dict[str, dict[str, None]] = defaultdict(dict)
    operators_with_problems: set[str] = set()
    for node, count, has_problems in reports:
        signatures[node.op] += count
        errors[node.op] = max(
            errors[node.op], node.description_error or 0.0, *(s.largest_error for s in node.strategies), 0.0
        )
        axes[node.op] |= dict.fromkeys(strategy.axis for strategy in node.strategies)
        if has_problems:
            operators_with_problems.add(node.op)
    table = Table(noun, "signatures", "strategies", "largest error", "", header_style="bold", box=None, pad_edge=False)
    for name in sorted(signatures, key=str.lower):
        state = "[red]see below[/]" if name in operators_with_problems else "[green]agrees[/]"
        table.add_row(name, str(signatures[name]), ", ".join(axes[name]) or "none", f"{errors[name]:.0e}", state)
    return table
