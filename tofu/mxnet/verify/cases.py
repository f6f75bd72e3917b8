"""The cases that every description is verified with: those of `tdl_ops/mxnet/cases`, one file for each family of `tdl_ops/mxnet`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from tdl_ops.mxnet import cases
from tofu.mxnet.verify.case import Case


@cache
def load_cases() -> tuple[Case, ...]:
    """All cases, by the names of their files."""
    modules = [import_module(f"{cases.__name__}.{module.name}") for module in iter_modules(cases.__path__)]
    return tuple(case for module in modules for case in module.CASES)
