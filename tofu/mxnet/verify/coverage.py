"""How much of MXNet is described and verified, counted over two sets of operators.

`mxnet_0_11` is a reconstruction of the paper's 139 operators; `mxnet_1_9_1_user_facing` are the forward operators that models call.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.mxnet.verify.record import Entry
from tofu.tdl import Description
from tofu.verification.comparison import Compared

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
