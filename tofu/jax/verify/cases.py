"""The cases that every description is verified with: those of `tdl_ops/jax/cases`, a file for each family, and those of kernels."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from tdl_ops.jax.case import Case
from tofu.errors import InternalError
from tofu.verification.cases import import_cases


@cache
def load_cases() -> dict[str, Case]:
    """All cases by their names, in the order of the names of their files."""
    modules = [*import_cases("tdl_ops.jax.cases"), import_module("tofu.jax.verify.kernel_cases")]
    listed = [case for module in modules for case in getattr(module, "CASES", ())]
    named = {case.name: case for case in listed}
    if len(named) < len(listed):
        raise InternalError("Two cases have one name.")
    return named
