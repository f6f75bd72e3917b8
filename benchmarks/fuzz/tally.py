"""What records add up to: models and plans by kind, failures, and the operators and strategies that were exercised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table

from benchmarks.fuzz.campaign import Record
from tdl_ops.mxnet import DESCRIPTIONS
from tofu.mxnet.verify.record import Entry

MANY = 8  # workers


def print_models(records: Iterable[Record], console: Console) -> None:
    """A row for each kind of model."""
    table = Table(
        *(
            "models",
            "run",
            "no model",
            "plans",
            "random at 8 or 12",
            "refused",
            "one device wrong",
            "failures",
            "s a plan",
        ),
        title="Random models under random plans",
    )
    by_kind: dict[str, list[Record]] = {}
    for record in records:
        by_kind.setdefault(record.kind, []).append(record)
    total = [record for found in by_kind.values() for record in found]
    for kind, found in [*sorted(by_kind.items()), ("all", total)]:
        plans = sum(sum(record.plans.values()) for record in found)
        counts = (
            len(found),
            sum(record.stage.startswith("no model") for record in found),
            plans,
            sum(record.plans.get("random", 0) for record in found if record.workers in (8, 12)),
            sum(sum(record.refused.values()) for record in found),
            sum(bool(record.disputes) for record in found),
            sum(len(record.failures) for record in found),
        )
        seconds = sum(record.seconds for record in found) / max(plans, 1)
        table.add_row(kind, *(f"{count:,}" for count in counts), f"{seconds:.2f}")
    console.print(table)
    for name in ("plans", "refused"):
        sums: Counter[str] = Counter()
        for record in total:
            sums.update(getattr(record, name))
        console.print(
            f"{name}: " + ", ".join(f"{kind} {count:,}" for kind, count in sums.most_common()), highlight=False
        )


def count_strategies(records: Iterable[Record]) -> Counter[tuple[str, str]]:
    """Operator, axis -> plans that took it; axis "" for plans that had the operator."""
    taken: Counter[tuple[str, str]] = Counter()
    for record in records:
        for op, axis, count in record.taken:
            taken[op, axis] += count
    return taken


def print_strategies(taken: Mapping[tuple[str, str], int], entries: Mapping[str, Entry], console: Console) -> list[str]:
    """All described operators with the strategies that are verified of them, and how many plans took each; returns those never taken."""
    table = Table("operator", "plans", "axis: plans that take it", title="Operators and strategies")
    never = []
    for op in sorted(DESCRIPTIONS):
        axes = dict.fromkeys([*(entries[op].axes if op in entries else ()), *(a for o, a in taken if o == op and a)])
        counts = ", ".join(f"{axis} {taken.get((op, axis), 0):,}" for axis in axes)
        table.add_row(op, f"{taken.get((op, ''), 0):,}", counts)
        if axes and not any(taken.get((op, axis), 0) for axis in axes):
            never.append(op)
    console.print(table)
    return never
