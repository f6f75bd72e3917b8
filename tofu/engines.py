"""The engines: which models each takes, and where its functions are. No framework is imported before a model is given.

Each engine is a folder of the same shape: `partition.py`, `frontend/`, `backend/`, `verify/`, `simulation.py` and `commands.py`.
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
    """An engine, as the rest of Tofu knows it.

    Attributes
    ----------
    name
        The name of its folder, and of the package that it is for.
    model
        What its models are, in a word or two.
    files
        A pattern for the names of files that have its models.
    takes_functions
        Whether a function that no framework defines is a model for it.
    """

    name: str
    model: str
    files: str
    takes_functions: bool = False

    def load(self, module: str) -> Any:
        """Return a module of the engine. Raise TofuError if its framework is not installed."""
        try:
            return import_module(f"tofu.{self.name}.{module}")
        except ImportError as error:
            raise TofuError(str(error)) from error

    def defines(self, model: Any) -> bool:
        """Return True if the framework, or the engine itself, defines a model or its class."""
        for each in (*type(model).__mro__, model):
            module = getattr(each, "__module__", None) or ""
            if f"{module}.".startswith((f"{self.name}.", f"tofu.{self.name}.")):
                return True
        return False

    def reads(self, file: str) -> bool:
        """Return True if a file of this name has a model for it."""
        return re.search(self.files, file) is not None


MXNET = Registration("mxnet", "an MXNet symbol", r"\.json$")
JAX = Registration("jax", "a step for JAX", r"\.py(:.*)?$", takes_functions=True)
ENGINES = (MXNET, JAX)


def find_engine(model: Any) -> Registration | None:
    """Return the engine whose framework defines a model, or the one that takes any other function; None if none does."""
    if _is_made_by_mxnet(model):
        return MXNET
    owners = (engine for engine in ENGINES if engine.defines(model))
    others = (engine for engine in ENGINES if engine.takes_functions and callable(model))
    return next(owners, None) or next(others, None)


def _is_made_by_mxnet(model: Any) -> bool:
    """Return True for a function that makes symbols, such as mx.sym.FullyConnected, which has another module."""
    symbols = getattr(sys.modules.get("mxnet"), "symbol", None)
    return symbols is not None and getattr(symbols, getattr(model, "__name__", ""), None) is model


def find_engine_of_file(name: str) -> Registration:
    """Return the engine that reads a file: FILE.py or FILE.py:STEP is a step for JAX, any other file a symbol that MXNet saved."""
    return next((one for one in ENGINES if one.reads(name)), MXNET)
