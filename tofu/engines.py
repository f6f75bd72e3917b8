"""The table of engines (frameworks that Tofu supports).

`tofu.partition` and the command line look up the engine for a model here. Importing this module imports no framework.
Every engine is a folder with `partition.py`, `frontend/`, `backend/`, `verify/`, `simulation.py` and `commands.py`.
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
    """A framework that Tofu supports.

    Attributes
    ----------
    name
        The name of the framework's package, such as "mxnet", and of its folder in `tofu`.
    model
        The kind of model in words, such as "an MXNet symbol".
    files
        Regular expression for the names of files with models of this framework.
    takes_functions
        True if a model can be a plain Python function.
    """

    name: str
    model: str
    files: str
    takes_functions: bool = False

    def load(self, module: str) -> Any:
        """Import the module `tofu.<name>.<module>`. Raise TofuError if the framework is not installed."""
        try:
            return import_module(f"tofu.{self.name}.{module}")
        except ImportError as error:
            raise TofuError(str(error)) from error

    def defines(self, model: Any) -> bool:
        """Return True if the class of `model` is from the framework, or from Tofu's package for the framework."""
        modules = [getattr(candidate, "__module__", None) for candidate in (*type(model).__mro__, model)]
        return any(f"{module}.".startswith((f"{self.name}.", f"tofu.{self.name}.")) for module in modules)

    def reads(self, file: str) -> bool:
        """Return True if the file name matches the pattern `files`."""
        return re.search(self.files, file) is not None


MXNET = Registration("mxnet", "an MXNet symbol", r"\.json$")
JAX = Registration("jax", "a step for JAX", r"\.py(:.*)?$", takes_functions=True)
ENGINES = (MXNET, JAX)


def find_engine(model: Any) -> Registration | None:
    """Return the framework of a model, or None if it is unknown. A plain function is a training step for JAX."""
    if _is_made_by_mxnet(model):
        return MXNET
    defining_engine = next((engine for engine in ENGINES if engine.defines(model)), None)
    return defining_engine or next((engine for engine in ENGINES if engine.takes_functions and callable(model)), None)


def _is_made_by_mxnet(model: Any) -> bool:
    symbols = getattr(sys.modules.get("mxnet"), "symbol", None)
    return symbols is not None and getattr(symbols, getattr(model, "__name__", ""), None) is model


def find_engine_of_file(name: str) -> Registration:
    """Return JAX for a Python file, such as "step.py" or "step.py:function", otherwise MXNet."""
    return next((engine for engine in ENGINES if engine.reads(name)), MXNET)
