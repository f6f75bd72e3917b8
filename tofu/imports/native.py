"""Import Tofu's native code: the extension modules `tofu._core` and `tofu._mxnet`."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[1]
DISTRIBUTION = "tofu-partitioner"


def import_native(name: str) -> ModuleType:
    """Import `tofu._core` or `tofu._mxnet`.

    Raise an ImportError if the module is missing, or older than its stub file (.pyi).
    """
    try:
        module = import_module(f"tofu.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"tofu.{name}":
            raise
        raise ImportError(
            f"Tofu's native code is not built for this Python (there is no tofu.{name} for {sys.implementation.cache_tag} in {FOLDER}): "
            f"{_explain_missing(name)}"
        ) from None
    except ImportError as error:
        raise ImportError(
            f"Tofu's native code does not fit this Python or MXNet ({error}): pip install {DISTRIBUTION} again, or make build"
        ) from error
    declared_names = re.findall(r"^(?:def )?([a-z]\w*)(?:\(|: )", (FOLDER / f"{name}.pyi").read_text(), re.M)
    missing_names = [name for name in declared_names if not hasattr(module, name)]
    if missing_names:
        raise ImportError(
            f"Tofu's native code does not match its Python code ({module.__name__} has no {missing_names[0]}): make build, or pip install "
            f"{DISTRIBUTION} again"
        )
    return module


def _explain_missing(name: str) -> str:
    if name == "_mxnet" and any(FOLDER.glob("_core.*.so")):
        reinstall_command = f"pip install --force-reinstall --no-deps --no-binary :all: {DISTRIBUTION}"
        return f"Tofu is compiled for MXNet only if MXNet is installed first: make build in a clone, or {reinstall_command}"
    return f"make build, or pip install {DISTRIBUTION}"
