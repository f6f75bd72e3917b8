"""The operator descriptions, one family per file. Importing the package registers those of all files.

A new operator is one description in one of these files and one case in tofu/verify/cases.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
