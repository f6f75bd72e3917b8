"""The descriptions of MXNet's operators, one family a file. Importing the package registers those of all files.

A new operator is one description in one of these files and one case in `cases/`, in the file of the same name.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    if not _module.ispkg:
        import_module(f"{__name__}.{_module.name}")
