"""The table of engines, in which `tofu.partition` and the command line find the engine for a model.

Importing this module imports no framework. Every engine is a folder with `partition.py`, `frontend/`, `backend/`,
`verify/`, `simulation.py` and `commands.py`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tofu.errors import TofuError


@dataclass(frozen=True)
class Registration:
    """Engine in the table of engines.

    Attributes
    ----------
    name
        The name of the engine's folder, and of the framework's package.
    model
        The words for a model of this engine in messages.
    files
        A regular expression for the names of files that contain such models.
    takes_functions
        True if a model can be a plain Python function.
    """

    name: str
    model: str
    files: str
    takes_functions: bool = False

    def load(self, module: str) -> Any:
        """Return a module of the engine. Raises TofuError if its framework is not installed."""
        try:
            return import_module(f"tofu.{self.name}.{module}")
        except ImportError as error:
            raise TofuError(str(error)) from error

    def defines(self, model: Any) -> bool:
        """Return True if a model, or its class, is defined in the framework or in the engine's folder."""
        for candidate in (*type(model).__mro__, model):
            module = getattr(candidate, "__module__", None) or ""
            if f"{module}.".startswith((f"{self.name}.", f"tofu.{self.name}.")):
                return True
        return False

    def reads(self, file: str) -> bool:
        """Return True if the name of a file matches `files`."""
        return re.search(self.files, file) is not None


MXNET = Registration("mxnet", "an MXNet symbol", r"\.json$")
JAX = Registration("jax", "a step for JAX", r"\.py(:.*)?$", takes_functions=True)
ENGINES = (MXNET, JAX)


def find_engine(model: Any) -> Registration | None:
    """Return the engine for a model: the engine whose framework defines it, or the engine for plain functions, or None."""
    if _is_made_by_mxnet(model):
        return MXNET
    defining_engines = (engine for engine in ENGINES if engine.defines(model))
    function_engines = (engine for engine in ENGINES if engine.takes_functions and callable(model))
    return next(defining_engines, None) or next(function_engines, None)


def _is_made_by_mxnet(model: Any) -> bool:
    """Return True for a function such as mx.sym.FullyConnected, which is in no module of MXNet."""
    symbols = getattr(sys.modules.get("mxnet"), "symbol", None)
    return symbols is not None and getattr(symbols, getattr(model, "__name__", ""), None) is model


def find_engine_of_file(name: str) -> Registration:
    """Return the engine for a file: JAX for FILE.py and FILE.py:STEP, otherwise MXNet."""
    return next((engine for engine in ENGINES if engine.reads(name)), MXNET)
