"""The engines: which models each takes, and where its functions are. No framework is imported before a model is given.

Each engine is a folder of the same shape: `partition.py`, `frontend/`, `backend/`, `verify/`, `simulation.py` and `commands.py`.
"""

from __future__ import annotations

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
    framework
        What the framework calls itself.
    model
        What its models are, in a word or two.
    """

    name: str
    framework: str
    model: str

    def load(self, module: str) -> Any:
        """Return a module of the engine. Raise TofuError if its framework is not installed."""
        try:
            return import_module(f"tofu.{self.name}.{module}")
        except ImportError as error:
            raise TofuError(str(error)) from error

    def defines(self, model: Any) -> bool:
        """Return True if the framework defines a model, or its class."""
        for each in (*type(model).__mro__, model):
            module = getattr(each, "__module__", None) or ""
            if module == self.name or module.startswith(f"{self.name}."):
                return True
        return False


MXNET = Registration("mxnet", "MXNet", "an MXNet symbol")
JAX = Registration("jax", "JAX", "a step for JAX")
ENGINES = (MXNET, JAX)


def find_engine(model: Any) -> Registration | None:
    """Return the engine that takes a model: MXNet's for what MXNet defines, JAX's for any other function; None if none does."""
    if MXNET.defines(model) or _is_made_by_mxnet(model):
        return MXNET
    return JAX if callable(model) else None


def _is_made_by_mxnet(model: Any) -> bool:
    """Return True for a function that makes symbols, such as mx.sym.FullyConnected, which has another module."""
    symbols = getattr(sys.modules.get("mxnet"), "symbol", None)
    return symbols is not None and getattr(symbols, getattr(model, "__name__", ""), None) is model


def find_engine_of_file(name: str) -> Registration:
    """Return the engine that takes a file: FILE.py or FILE.py:STEP is a step for JAX, any other file a symbol that MXNet saved."""
    return JAX if name.endswith(".py") or ".py:" in name else MXNET
