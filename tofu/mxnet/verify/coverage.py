"""Count how many of MXNet's operators are described and verified, and print tables.

There are two sets of operators. `mxnet_0_11` is a reconstruction of the paper's 139 operators.
`mxnet_1_9_1_user_facing` has the forward operators that models call.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.table import Table

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.formatting import align
from tofu.mxnet.lowerings import LOWERINGS
from tofu.mxnet.verify.campaign import CaseResult
from tofu.mxnet.verify.record import RecordEntry
from tofu.tdl import Description
from tofu.verification.comparison import Compared
from tofu.verification.table import tabulate

OPERATOR_SETS = Path(__file__).parent / "operator_sets.json"
PAPER = {"described": 134, "total": 139, "elementwise": 77, "opaque": 2, "reduced": 11}
"""Numbers in section 4.1 of the paper, which used MXNet 0.11."""
RECONSTRUCTIONS = {"mxnet_0_11": " (a reconstruction: the paper does not say which operators it counted)"}
"""For a set of operators, by name, a remark about the set."""

_NOTHING = str(Compared.NOTHING)

NOT_DESCRIBED = {
    "Custom": 'runs the user\'s Python code; describe your own, or replicate it on every worker: undescribed="replicate"',
    "fill_element_0index": "MXNet 1.9.1 refuses it in symbols, whatever its inputs",
}
NOTHING_TO_SPLIT = {
    "shape_array": "one number for each dimension, known from the shape",
    "size_array": "one number, known from the shape",
}


@dataclass(frozen=True)
class Coverage:
    """Numbers of operators by property, such as verified or element-wise."""

    total: int
    described: int
    verified: int
    elementwise: int
    opaque: int
    reduced: int
    without_strategy: tuple[str, ...]


def read_operator_sets() -> dict[str, list[str]]:
    """Return the names of the operators in each set."""
    sets: dict[str, list[str]] = json.loads(OPERATOR_SETS.read_text())
    return sets


def count_coverage(names: list[str], entries: Mapping[str, RecordEntry]) -> Coverage:
    """Count the operators in `names` by property. `entries` has the records of verified operators."""
    recorded = [entries[name] for name in names if name in entries]
    return Coverage(
        total=len(names),
        described=sum(DESCRIPTIONS.get(name) is not None for name in names),
        verified=sum(bool(entry.axes) and entry.is_verified for entry in recorded),
        elementwise=sum(entry.is_elementwise for entry in recorded),
        opaque=sum(entry.is_opaque for entry in recorded),
        reduced=sum(bool(entry.reduced) for entry in recorded),
        without_strategy=tuple(name for name in names if name not in entries or not entries[name].axes),
    )


def count_kinds(entries: Iterable[RecordEntry | None]) -> dict[str, int]:
    """Return the number of operators for each kind of comparison, such as {"numbers": 120, "parts": 7}."""
    kinds = Counter(entry.compared if entry is not None and entry.is_verified else _NOTHING for entry in entries)
    return {str(kind): kinds[str(kind)] for kind in Compared}


def count_lines() -> tuple[float, int, str]:
    """Return the median number of lines of a description, the maximum, and the operator with the maximum."""
    counts = {name: _count_lines(description) for name, description in sorted(DESCRIPTIONS.items())}
    largest = max(counts, key=counts.__getitem__)
    return median(counts.values()), counts[largest], largest


def _count_lines(description: Description) -> int:
    lines = [line.strip() for line in inspect.getsource(description.function).splitlines()]
    start = next((n for n, line in enumerate(lines) if line.startswith("def ")), 0)
    return sum(bool(line) and not line.startswith("#") for line in lines[start:])


def coverage_rows(names: Sequence[str], entries: Mapping[str, RecordEntry], with_tensors: bool) -> list[str]:
    """Return a line for each operator: its axes, its verification, its file, and with `with_tensors`, its inputs."""
    rows = [("operator", "split by", "kind", "verified", "described in", "inputs" if with_tensors else "")]
    for name in names:
        description, entry = DESCRIPTIONS.get(name), entries.get(name)
        if description is None:
            rows.append((name, "", "", "", f"not described: {NOT_DESCRIBED[name]}", ""))
            continue
        axes = ", ".join(entry.axes) if entry is not None else ""
        kind = ", ".join([*_list_kinds(entry), *(["lowered"] if name in LOWERINGS else [])])
        inputs = _list_tensors(description) if with_tensors else ""
        rows.append((name, axes, kind, _describe_verified(entry), str(description.place), inputs))
    return align(rows)


def _list_kinds(entry: RecordEntry | None) -> list[str]:
    if entry is None:
        return []
    kinds = {"element-wise": entry.is_elementwise, "opaque": entry.is_opaque, "reduces": bool(entry.reduced)}
    return [kind for kind, is_of_kind in kinds.items() if is_of_kind]


def _describe_verified(entry: RecordEntry | None) -> str:
    if entry is None or not entry.is_verified:
        return "no"
    return f"{entry.compared}, {entry.signatures} signatures"


def _list_tensors(description: Description) -> str:
    required = len(description.tensors) - description.optional
    names = [name if i < required else f"{name}?" for i, name in enumerate(description.tensors)]
    return ", ".join([*names, *([f"*{description.star}"] if description.star else [])])


def kinds_line(kinds: Mapping[str, int]) -> str:
    """Return the result of `count_kinds` as a sentence."""
    numbers, relation, parts, unwritten, nothing = kinds.values()
    return (
        f"Compared with MXNet's kernels: {numbers} operators by numbers, {relation} by a relation, {parts} by their parts alone; "
        f"{unwritten} leave their outputs unwritten; {nothing} not at all."
    )


def coverage_lines(
    listed: Sequence[str], entries: Mapping[str, RecordEntry], coverage: Mapping[str, Coverage]
) -> Iterator[str]:
    """Yield sentences with totals for each set of operators."""
    median, largest, name = count_lines()
    yield f"\n{len(listed)} operators listed. A description has {median:g} lines (the median), the longest, {name}, {largest}."
    yield kinds_line(count_kinds(entries.get(operator) for operator in listed))
    for name, counts in coverage.items():
        yield (
            f"{name}{RECONSTRUCTIONS.get(name, '')}: {counts.described} of {counts.total} described, "
            f"{counts.verified} with verified strategies; "
            f"{counts.elementwise} element-wise, {counts.opaque} opaque, {counts.reduced} that reduce."
        )
        if counts.without_strategy:
            yield "\n".join(["    without a verified strategy:", *map(_explain_missing, counts.without_strategy)])
    yield (
        f"The paper, MXNet 0.11: {PAPER['described']} of {PAPER['total']} described; {PAPER['elementwise']} element-wise, "
        f"{PAPER['opaque']} opaque, {PAPER['reduced']} that reduce; most under three lines."
    )


def _explain_missing(operator: str) -> str:
    reason = (NOT_DESCRIBED | NOTHING_TO_SPLIT).get(operator)
    return f"      {operator}: {reason}" if reason else f"      {operator}"


def results_table(results: Iterable[CaseResult]) -> Table:
    """Return a table with a row for each operator: verifications, largest error, and problems."""
    rows = (
        (node, 1 + result.trials.verified, bool(result.problems)) for result in results for node in result.report.nodes
    )
    return tabulate("operator", rows)
