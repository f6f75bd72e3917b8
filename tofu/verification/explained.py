"""Exact cuts that are no strategies, each with the reason: an engine lists its own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tofu.verification.missing import Missing


@dataclass(frozen=True)
class Explanation:
    """Why the cuts of operators are no strategies, where `pattern` matches them as they print; `op` matches the operators' names."""

    op: str
    pattern: str
    reason: str


def explain(missing: Missing, explanations: Iterable[Explanation]) -> str | None:
    """Why a cut is no strategy, or None where nobody has said so yet."""
    matching = (
        one for one in explanations if re.fullmatch(one.op, missing.op) and re.match(one.pattern, repr(missing.cut))
    )
    return next((one.reason for one in matching), None)
