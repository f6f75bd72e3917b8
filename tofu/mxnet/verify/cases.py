"""The cases that every description is verified with: those of `tdl_ops/mxnet/cases`, one file for each family of `tdl_ops/mxnet`."""

from __future__ import annotations

from functools import cache

from tdl_ops.mxnet.case import Case
from tofu.verification.cases import import_cases


@cache
def load_cases() -> tuple[Case, ...]:
    """Return all cases, by the names of their files."""
    return tuple(case for module in import_cases("tdl_ops.mxnet.cases") for case in module.CASES)
