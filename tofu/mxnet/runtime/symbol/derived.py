"""Symbols that MXNet builds from a partitioned symbol, such as `sym[0]`.

These symbols are partitioned with the same settings. If this is impossible, an error is raised, so that no model runs
on one device by mistake.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import mxnet as mx

from tofu.errors import UnsupportedError
from tofu.pipeline import Partition
from tofu.planning.settings import Settings


class DerivedSymbols(mx.sym.Symbol):  # type: ignore[misc]  # MXNet is untyped
    """Base class of partitioned symbols (MXNet graphs), with MXNet's methods that return another symbol."""

    def __init__(self, whole: Any, settings: Settings, contexts: Sequence[Any]) -> None:
        self.settings = settings
        super().__init__(_copy_handle(whole))
        self.contexts = tuple(contexts)
        self._partition: Partition | None = None

    @property
    def handle(self) -> Any:
        """Pointer to MXNet's symbol. Raises UnsupportedError unless Tofu's own code reads it."""
        caller = sys._getframe(1)
        is_allowed = caller.f_locals.get("self") is self or caller.f_globals.get("__name__", "").startswith("tofu.")
        if not is_allowed and self.settings.workers > 1:
            raise UnsupportedError(
                f"{self!r} binds to several devices, but a model that MXNet builds from it (arithmetic, operators, mx.sym.Group, CachedOp, "
                "SymbolBlock) would run on one. Build the whole model first and call tofu.partition(...) last. sym.whole is the model "
                "for one device, and tofu.gluon.partition(...) takes a SymbolBlock of it."
            )
        return super().handle

    @handle.setter
    def handle(self, handle: Any) -> None:
        mx.sym.Symbol.handle.__set__(self, handle)

    @property
    def whole(self) -> Any:
        """The original model, a symbol for one device."""
        return mx.sym.Symbol(_copy_handle(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return a copy with other symbols as inputs, and the same settings."""
        composed = super().__call__(*args, **kwargs)
        composed._partition = None
        return composed

    def __getitem__(self, index: Any) -> Any:
        """Return one or several outputs as a symbol with the same settings."""
        return self._apply_settings(self.whole[index])

    def get_internals(self) -> Any:
        """Return the outputs of all operators as a symbol with the same settings."""
        return self._apply_settings(super().get_internals())

    def get_children(self) -> Any:
        """Return the inputs of the last operators as a symbol (MXNet's class for models), or None for a variable."""
        children = super().get_children()
        return None if children is None else self._apply_settings(children)

    def _apply_settings(self, symbol: Any) -> Any:
        return type(self)(symbol, self.settings, self.contexts)

    def optimize_for(self, *args: Any, **kwargs: Any) -> Any:
        """Raise UnsupportedError, because MXNet's backends cannot optimize a partitioned symbol."""
        raise UnsupportedError(
            "optimize_for works for one device. Apply it to the model before tofu.partition(...), or to sym.whole."
        )

    def get_backend_symbol(self, backend: str) -> Any:
        """Rewrite the symbol for a backend of MXNet. Raise UnsupportedError for several workers."""
        return super().get_backend_symbol(backend) if self.settings.workers == 1 else self.optimize_for(backend)

    def as_np_ndarray(self) -> Any:
        """Return this symbol as an `mx.np` symbol. Raise UnsupportedError for several workers."""
        if self.settings.workers == 1:
            return super().as_np_ndarray()
        raise UnsupportedError(
            "as_np_ndarray returns a symbol for one device. Convert the model before tofu.partition(...)."
        )


def _copy_handle(symbol: Any) -> Any:
    handle = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXSymbolCopy(symbol.handle, ctypes.byref(handle)))
    return handle
