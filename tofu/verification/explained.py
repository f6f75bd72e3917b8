"""Known reasons why descriptions do not offer some cuts that the kernels allow. Each engine lists its reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tofu.verification.missing import Missing


@dataclass(frozen=True)
class Explanation:
    """Reason why some cuts are not offered. `op` matches the names of operators, and `pattern` the printed cuts."""

    op: str
    pattern: str
    reason: str


def explain(missing: Missing, explanations: Iterable[Explanation]) -> str | None:
    """Return the known reason why a cut is not offered, or None."""
    matching = (
        explanation
        for explanation in explanations
        if re.fullmatch(explanation.op, missing.op) and re.match(explanation.pattern, repr(missing.cut))
    )
    return next((explanation.reason for explanation in matching), None)
