"""Import the cases (an operator, attributes and inputs) on which descriptions are verified."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from tofu.errors import TofuError


def import_cases(package: str) -> list[ModuleType]:
    """Return the modules of `package`, sorted by name. Raise TofuError if the package is not installed."""
    try:
        cases = import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise TofuError("Descriptions are verified in Tofu's source folder. An installation lacks the cases.") from None
    return [import_module(f"{package}.{module.name}") for module in iter_modules(cases.__path__)]
