"""The cases that every description is verified with: those of `tdl_ops/jax/cases`, one file for each family of `tdl_ops/jax`."""

from __future__ import annotations

from functools import cache

from tofu.errors import InternalError
from tofu.jax.verify.case import Case
from tofu.verification.cases import import_cases


@cache
def load_cases() -> dict[str, Case]:
    """All cases by their names, in the order of the names of their files."""
    listed = [case for module in import_cases("tdl_ops.jax.cases") for case in getattr(module, "CASES", ())]
    named = {case.name: case for case in listed}
    if len(named) < len(listed):
        raise InternalError("Two cases have one name.")
    return named
