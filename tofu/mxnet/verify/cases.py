"""Load and verify the built-in cases, which are in the folder `tdl_ops/mxnet/cases`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tdl_ops.mxnet.case import Case
from tofu.mxnet.verify.operators import PARTS, verify_operator
from tofu.verification.cases import import_cases
from tofu.verification.report import Report


def verify_case(case: Case, dtype: str = "float64", seed: int = 0, parts: Sequence[int] = PARTS) -> Report:
    """Verify one case: the whole operator, and its splits into each number of parts in `parts`.

    "float64" uses MXNet's own kernels. "float32" uses the kernels of the library oneDNN if they exist.
    """
    single_tolerance = max(case.description_tolerance, 1e-4)
    return verify_operator(
        case.op,
        case.attributes,
        case.draw_inputs(dtype, seed),
        parts,
        wrt=case.wrt,
        relations=case.relations,
        description_tolerance=case.description_tolerance if dtype == "float64" else single_tolerance,
        seed=seed,
    )


@cache
def load_cases() -> tuple[Case, ...]:
    """Return all built-in cases, ordered by file name."""
    return tuple(case for module in import_cases("tdl_ops.mxnet.cases") for case in module.CASES)
