"""The cases that every description is verified with: those of `tdl_ops/jax/cases`, one file for each family of `tdl_ops/jax`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from tdl_ops.jax import cases
from tofu.errors import InternalError
from tofu.jax.verify.case import Case


@cache
def load_cases() -> dict[str, Case]:
    """All cases by their names, in the order of the names of their files."""
    modules = [import_module(f"{cases.__name__}.{module.name}") for module in iter_modules(cases.__path__)]
    listed = [case for module in modules for case in getattr(module, "CASES", ())]
    named = {case.name: case for case in listed}
    if len(named) < len(listed):
        raise InternalError("Two cases have one name.")
    return named
