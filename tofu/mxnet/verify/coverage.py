"""X"""

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
from tofu.mxnet.lowerings import LOWERINGS
from tofu.mxnet.verify.campaign import CaseResult
from tofu.mxnet.verify.record import Entry
from tofu.plan import align
from tofu.tdl import Description
from tofu.verification.comparison import Compared
from tofu.verification.table import tabulate

OPERATOR_SETS = Path(__file__).parent / "operator_sets.json"
PAPER = {"described": 134, "total": 139, "elementwise": 77, "opaque": 2, "reduced": 11}
"""Section 4.1 of the paper, of MXNet 0.11."""
RECONSTRUCTIONS = {"mxnet_0_11": " (a reconstruction: the paper does not say which operators it counted)"}
"""What is said of a set of operators wherever it is counted."""

_NOTHING = str(Compared.NOTHING)

NOT_DESCRIBED = {
    "Custom": 'runs Python of the user\'s; describe your own, or let every worker compute it whole: undescribed="replicate"',
    "fill_element_0index": "MXNet 1.9.1 refuses it in symbols, whatever its inputs",
}
NOTHING_TO_SPLIT = {
    "shape_array": "one number for each dimension, known from the shape",
    "size_array": "one number, known from the shape",
}


@dataclass(frozen=True)
class Coverage:
    """The operators of one set: all, those with a description, those with a verified strategy; and some kinds of the latter two."""

    total: int
    described: int
    verified: int
    elementwise: int
    opaque: int
    reduced: int
    without_strategy: tuple[str, ...]


def read_operator_sets() -> dict[str, list[str]]:
    """The names of the operators of each set."""
    sets: dict[str, list[str]] = json.loads(OPERATOR_SETS.read_text())
    return sets


def count_coverage(names: list[str], entries: Mapping[str, Entry]) -> Coverage:
    """Coverage of the operators `names`, by what is registered and by a record that holds."""
    known = [entries[name] for name in names if name in entries]
    return Coverage(
        total=len(names),
        described=sum(DESCRIPTIONS.get(name) is not None for name in names),
        verified=sum(bool(entry.axes) and entry.is_verified for entry in known),
        elementwise=sum(entry.is_elementwise for entry in known),
        opaque=sum(entry.is_opaque for entry in known),
        reduced=sum(bool(entry.reduced) for entry in known),
        without_strategy=tuple(name for name in names if name not in entries or not entries[name].axes),
    )


def count_kinds(entries: Iterable[Entry | None]) -> dict[str, int]:
    """How many operators were compared in each way, the last of which is not at all."""
    kinds = Counter(entry.compared if entry is not None and entry.is_verified else _NOTHING for entry in entries)
    return {str(kind): kinds[str(kind)] for kind in Compared}


def count_lines() -> tuple[float, int, str]:
    """Lines of code of the registered descriptions, comments, decorators and helpers that several share left out: the median, the
    largest, and whose it is.
    """
    counts = {name: _count_lines(description) for name, description in sorted(DESCRIPTIONS.items())}
    largest = max(counts, key=counts.__getitem__)
    return median(counts.values()), counts[largest], largest


def _count_lines(description: Description) -> int:
    lines = [line.strip() for line in inspect.getsource(description.function).splitlines()]
    start = next((n for n, line in enumerate(lines) if line.startswith("def ")), 0)
    return sum(bool(line) and not line.startswith("#") for line in lines[start:])


def coverage_rows(names: Sequence[str], entries: Mapping[str, Entry], with_tensors: bool) -> list[str]:
    """One line for each operator: how it is split, of what kind it is, what was verified of it, where it is described; and its inputs."""
    rows = [("operator", "split by", "kind", "verified", "described in", "inputs" if with_tensors else "")]
    for name in names:
        description, entry = DESCRIPTIONS.get(name), entries.get(name)
        if description is None:
            rows.append((name, "", "", "", f"not described: {NOT_DESCRIBED[name]}", ""))
            continue
        axes = ", ".join(entry.axes) if entry is not None else ""
        kind = ", ".join([*_list_kinds(entry), *(["lowered"] if name in LOWERINGS else [])])
        inputs = _list_tensors(description) if with_tensors else ""
        rows.append((name, axes, kind, _say_verified(entry), str(description.place), inputs))
    return align(rows)


def _list_kinds(entry: Entry | None) -> list[str]:
    if entry is None:
        return []
    kinds = {"element-wise": entry.is_elementwise, "opaque": entry.is_opaque, "reduces": bool(entry.reduced)}
    return [kind for kind, holds in kinds.items() if holds]


def _say_verified(entry: Entry | None) -> str:
    if entry is None or not entry.is_verified:
        return "no"
    return f"{entry.compared}, {entry.signatures} signatures"


def _list_tensors(description: Description) -> str:
    required = len(description.tensors) - description.optional
    names = [name if i < required else f"{name}?" for i, name in enumerate(description.tensors)]
    return ", ".join([*names, *([f"*{description.star}"] if description.star else [])])


def kinds_line(kinds: Mapping[str, int]) -> str:
    """How many operators were compared in each way, by the words of `Compared`."""
    numbers, relation, parts, unwritten, nothing = kinds.values()
    return (
        f"Compared with MXNet's kernels: {numbers} operators by numbers, {relation} by a relation, {parts} by their parts alone; "
        f"{unwritten} leave their outputs unwritten; {nothing} not at all."
    )


def coverage_lines(
    listed: Sequence[str], entries: Mapping[str, Entry], coverage: Mapping[str, Coverage]
) -> Iterator[str]:
    """The totals, beside the paper's."""
    median, largest, name = count_lines()
    yield f"\n{len(listed)} operators listed. A description has {median:g} lines (the median), the longest, {name}, {largest}."
    yield kinds_line(count_kinds(entries.get(one) for one in listed))
    for name, counts in coverage.items():
        yield (
            f"{name}{RECONSTRUCTIONS.get(name, '')}: {counts.described} of {counts.total} described, "
            f"{counts.verified} with verified strategies; "
            f"{counts.elementwise} element-wise, {counts.opaque} opaque, {counts.reduced} that reduce."
        )
        if counts.without_strategy:
            yield "\n".join(["    without a verified strategy:", *map(_say_why, counts.without_strategy)])
    yield (
        f"The paper, MXNet 0.11: {PAPER['described']} of {PAPER['total']} described; {PAPER['elementwise']} element-wise, "
        f"{PAPER['opaque']} opaque, {PAPER['reduced']} that reduce; most under three lines."
    )


def _say_why(operator: str) -> str:
    """The operator, and why it has no strategy, where that is how it should be."""
    reason = (NOT_DESCRIBED | NOTHING_TO_SPLIT).get(operator)
    return f"      {operator}: {reason}" if reason else f"      {operator}"


def results_table(results: Iterable[CaseResult]) -> Table:
    """One row for each operator that occurs: at how many signatures, how exact, and whether anything disagrees."""
    found = (
        (node, 1 + result.trials.verified, bool(result.problems)) for result in results for node in result.report.nodes
    )
    return tabulate("operator", found)
