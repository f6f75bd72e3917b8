"""Reasons why exact cuts are not strategies; each engine lists its own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tofu.verification.missing import Missing


@dataclass(frozen=True)
class Explanation:
    """Reason why cuts are not strategies. `op` matches the operators' names, and `pattern` the printed cuts."""

    op: str
    pattern: str
    reason: str


def explain(missing: Missing, explanations: Iterable[Explanation]) -> str | None:
    """Return why a cut is not a strategy, or None without a known reason."""
    matching = (
        explanation
        for explanation in explanations
        if re.fullmatch(explanation.op, missing.op) and re.match(explanation.pattern, repr(missing.cut))
    )
    return next((explanation.reason for explanation in matching), None)
