"""A second process for MXNet's kernels: some end the process on inputs that they should refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from multiprocessing import get_context
from types import TracebackType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class ProcessEndedError(RuntimeError):
    """MXNet ended the process in which it ran."""


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        import_module(module)


class Sandbox:
    """Calls functions in a second process, and starts another one where that has ended. Each imports `modules` first.

    >>> with Sandbox() as sandbox:
    ...     sandbox.call(max, 2, 3)
    3
    """

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self._modules = tuple(modules)
        self._process = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, get_context("spawn"), _import, (self._modules,))

    def call(self, function: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
        """The result of `function`, whose arguments and result are copied; raises what it raises, or ProcessEndedError."""
        try:
            return self._process.submit(function, *arguments, **options).result()
        except BrokenProcessPool:
            self._process.shutdown()
            self._process = self._start()
            raise ProcessEndedError("MXNet ended its process") from None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.shutdown(cancel_futures=True)
