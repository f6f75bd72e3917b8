"""The cases that every description is verified with: one file for each family of `tdl_ops`, its `CASES`.

A new operator is one description there and one case here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from tofu.verify.case import Case


@cache
def load_cases() -> tuple[Case, ...]:
    """All cases, by the names of their files."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    return tuple(case for module in modules for case in module.CASES)
