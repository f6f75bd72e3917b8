"""Exact cuts of JAX's primitives that are no strategies, each with the reason."""

from __future__ import annotations

from tofu.verification.explained import Explanation

EXPLANATIONS = (
    Explanation(
        "dynamic_slice",
        r"inputs \(dimension \d, whole.*\) -> CONCAT along \d",
        "where the slice begins is known at run time alone; here it always begins in the same cell",
    ),
    Explanation(
        "scatter",
        r"inputs \(whole, dimension \d, dimension \d\) -> REDUCE",
        "parts that write into zeros add up where each cell is written once, as here; of others one of several values is kept",
    ),
    Explanation("loop_stack", r"inputs \(whole\) -> CONCAT along 0", "all workers take all steps of a loop"),
)
