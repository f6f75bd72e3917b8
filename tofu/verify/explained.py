"""Exact cuts that are no strategies, each with the reason."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tofu.verify.missing import Missing


@dataclass(frozen=True)
class Explanation:
    """Why the cuts of an operator that `pattern` matches, as they print, are no strategies."""

    op: str
    pattern: str
    reason: str


_UNEQUAL_FACTORS = (
    "the sizes of both shapes do not nest: where the outermost dimension is split, an inner cell's index is a quotient, which "
    "interval analysis does not cover"
)

EXPLANATIONS = (
    Explanation(
        "Dropout",
        r"inputs \(dimension \d\)",
        "along axes= all cells share what is drawn; two workers would draw different numbers, here both have the same seed",
    ),
    Explanation("Reshape", r"inputs \(dimension 0\)", _UNEQUAL_FACTORS),
    Explanation("_backward_reshape", r"inputs \(dimension 0\)", _UNEQUAL_FACTORS),
    Explanation(
        "_backward_Pooling",
        r"inputs \(whole, dimension \d, whole\)",
        "of several largest cells the first gets the gradient, and each part would give it to its own first; these numbers are distinct",
    ),
)


def explain(missing: Missing) -> str | None:
    """Why a cut is no strategy, or None where nobody has said so yet."""
    matching = (one for one in EXPLANATIONS if one.op == missing.op and re.match(one.pattern, repr(missing.cut)))
    return next((one.reason for one in matching), None)
