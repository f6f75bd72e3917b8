"""What records add up to: models and plans by kind, failures, and the operators and strategies that were exercised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from rich.console import Console
from rich.table import Table

from tdl_ops.mxnet import DESCRIPTIONS
from tests.campaigns.fuzz.campaign import Record
from tofu.mxnet.verify.cases import load_cases, verify_case
from tofu.mxnet.verify.nodes import list_operators
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


def print_strategies(taken: Mapping[tuple[str, str], int], entries: Mapping[str, Entry], console: Console) -> None:
    """All described operators with the strategies that are verified of them, and how many plans took each; then those that none took.

    Of an operator that cannot be split, why. Apart stand the strategies of a lowering's parts that no model offered: parts share one
    choice, and what another part does not have is offered by none.
    """
    axes = {
        op: list(dict.fromkeys([*(entries[op].axes if op in entries else ()), *(a for o, a in taken if o == op and a)]))
        for op in sorted(DESCRIPTIONS)
    }
    reasons = find_reasons({op for op, names in axes.items() if not names})
    table = Table("operator", "plans", "axis: plans that take it", title="Operators and strategies")
    for op, names in axes.items():
        counts = ", ".join(f"{axis} {taken.get((op, axis), 0):,}" for axis in names)
        table.add_row(op, f"{taken.get((op, ''), 0):,}", counts or f"none: {reasons.get(op, 'no case has it')}")
    console.print(table)
    rare = {op: [axis for axis in names if not taken.get((op, axis))] for op, names in axes.items()}
    unoffered = {op: [axis for axis in rare[op] if op.startswith("_tofu_") and (op, axis) not in taken] for op in axes}
    rare = {op: [axis for axis in names if axis not in unoffered[op]] for op, names in rare.items()}
    for title, found in (
        ("never run", [op for op in axes if not taken.get((op, ""))]),
        ("never split", [op for op, names in axes.items() if names and rare[op] == names]),
        (
            "never taken",
            [f"{op} by {', '.join(names)}" for op, names in rare.items() if 0 < len(names) < len(axes[op])],
        ),
        (
            "never offered, of parts that share the choice of their operator",
            [f"{op} by {', '.join(names)}" for op, names in unoffered.items() if names],
        ),
    ):
        console.print(f"{title}: {'; '.join(found) or 'none'}", highlight=False)


def find_reasons(ops: Collection[str]) -> dict[str, str]:
    """Why operators cannot be split, as the verifier has it of the signatures that it knows."""
    reasons: dict[str, dict[str, None]] = {}
    for case in load_cases():
        attributes = {name: str(value) for name, value in case.attributes.items()}
        if list_operators(case.op, attributes, len(case.inputs), case.wrt).isdisjoint(ops):
            continue
        for node in verify_case(case).nodes:
            reasons.setdefault(node.op, {}).update(dict.fromkeys(reason for _, reason in node.rejected))
    return {op: "; ".join(reasons[op]) for op in ops if op in reasons}
