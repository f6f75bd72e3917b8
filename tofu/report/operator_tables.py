"""What the descriptions cover and what verification found, as tables for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from tofu.lowering import lowered_operators
from tofu.tdl import Description, lookup
from tofu.verify.campaign import CaseResult
from tofu.verify.coverage import NOT_DESCRIBED, PAPER, Coverage, count_lines
from tofu.verify.record import Entry


def coverage_table(names: Sequence[str], entries: Mapping[str, Entry]) -> Table:
    """One row for each operator: what it takes, how it is described, split and lowered, and what was verified of it."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    for title in ("operator", "tensors", "kind", "axes", "verified", "described in"):
        table.add_column(title, no_wrap=title == "operator", overflow="fold")
    lowered = lowered_operators()
    for name in names:
        description, entry = lookup(name), entries.get(name)
        if description is None:
            table.add_row(name, "", "", "", "", f"not described: {NOT_DESCRIBED[name]}")
            continue
        axes = ", ".join(entry.axes) if entry is not None else ""
        kind = ", ".join([*_list_kinds(entry), *(["lowered"] if name in lowered else [])])
        table.add_row(name, _list_tensors(description), kind, axes, _say_verified(entry), str(description.place))
    return table


def _list_kinds(entry: Entry | None) -> list[str]:
    if entry is None:
        return []
    kinds = {"element-wise": entry.is_elementwise, "opaque": entry.is_opaque, "reduces": bool(entry.reduced)}
    return [kind for kind, holds in kinds.items() if holds]


def _say_verified(entry: Entry | None) -> str:
    if entry is None:
        return "no: python -m tofu verify --record"
    return f"{entry.checked}, {entry.signatures} signatures"


def _list_tensors(description: Description) -> str:
    required = len(description.tensors) - description.optional
    names = [name if i < required else f"{name}?" for i, name in enumerate(description.tensors)]
    return ", ".join([*names, *([f"*{description.star}"] if description.star else [])])


def coverage_lines(listed: Sequence[str], coverage: Mapping[str, Coverage]) -> Iterator[str]:
    """The totals, beside the paper's."""
    median, largest = count_lines()
    yield f"\n{len(listed)} operators listed. A description has {median:g} lines, the longest {largest}."
    for name, counts in coverage.items():
        yield (
            f"{name}: {counts.described} of {counts.total} described, {counts.verified} with verified strategies; "
            f"{counts.elementwise} element-wise, {counts.opaque} opaque, {counts.reduced} that reduce."
        )
        if counts.without_strategy:
            yield f"    without a verified strategy: {', '.join(counts.without_strategy)}"
    yield (
        f"The paper, MXNet 0.11: {PAPER['described']} of {PAPER['total']} described; {PAPER['elementwise']} element-wise, "
        f"{PAPER['opaque']} opaque, {PAPER['reduced']} that reduce; most under three lines."
    )


def results_table(results: Sequence[CaseResult]) -> Table:
    """One row for each operator that occurs: at how many signatures, how exact, and whether anything disagrees."""
    signatures: dict[str, int] = defaultdict(int)
    errors: dict[str, float] = defaultdict(float)
    axes: dict[str, dict[str, None]] = defaultdict(dict)
    troubled: set[str] = set()
    for result in results:
        for node in result.report.nodes:
            signatures[node.op] += 1 + result.trials.verified
            errors[node.op] = max(
                errors[node.op], node.description_error or 0.0, *(s.largest_error for s in node.strategies), 0.0
            )
            axes[node.op] |= dict.fromkeys(strategy.axis for strategy in node.strategies)
            if result.problems:
                troubled.add(node.op)
    table = Table(
        "operator", "signatures", "strategies", "largest error", "", header_style="bold", box=None, pad_edge=False
    )
    for name in sorted(signatures, key=str.lower):
        state = "[red]see below[/]" if name in troubled else "[green]agrees[/]"
        table.add_row(name, str(signatures[name]), ", ".join(axes[name]) or "none", f"{errors[name]:.0e}", state)
    return table
