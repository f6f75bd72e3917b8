"""Run MXNet's kernels in another process, because some kernels end their process or never return."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from resource import RLIMIT_AS, getrlimit, setrlimit
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from tofu.host.host_memory import read_address_bytes
from tofu.host.processes import hidden_from_interrupts

P = ParamSpec("P")
R = TypeVar("R")
LONGEST_CALL_SECONDS = 120.0
END_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux
MOST_BYTES = 8 * 2**30
"""Largest address space of the process, so that a kernel cannot use all memory of the machine."""


class ProcessEndedError(RuntimeError):
    """A function in a `Sandbox` ended its process, or took too long."""


class Sandbox:
    """A process that runs functions. If a function ends the process, a new process starts.

    `modules` are imported in the process first.

    >>> with Sandbox() as sandbox:
    ...     sandbox.call(max, 2, 3)
    3
    """

    def __init__(self, modules: Sequence[str] = (), longest_call_seconds: float = LONGEST_CALL_SECONDS) -> None:
        self._modules = tuple(modules)
        self._longest_call_seconds = longest_call_seconds
        self._start()

    def _start(self) -> None:
        context = get_context("spawn")
        self._pipe, process_pipe = context.Pipe()
        self._process = context.Process(target=_serve, args=(process_pipe, self._modules), daemon=True)
        with hidden_from_interrupts(signal.SIGTERM):  # an interrupted start prints a traceback
            self._process.start()
        process_pipe.close()

    def _stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def call(self, function: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
        """Call `function` in the process. Return its result or raise its error.

        Raise ProcessEndedError if the process ends or takes too long.
        """
        try:
            self._pipe.send((function, arguments, options))
            if not self._pipe.poll(self._longest_call_seconds):
                raise EOFError
            result: R | Exception = self._pipe.recv()
        except (EOFError, ConnectionError):
            self._stop()
            self._start()
            raise ProcessEndedError("MXNet ended its process, or did not return") from None
        if isinstance(result, Exception):
            raise result
        return result

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()


def _serve(pipe: Connection, modules: Sequence[str]) -> None:
    ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)  # a kernel may never return
    signal.pthread_sigmask(
        signal.SIG_UNBLOCK, (signal.SIGTERM,)
    )  # ends the process if its parent exits without `_stop`
    # A sanitizer needs terabytes of address space.
    if read_address_bytes() < MOST_BYTES:
        setrlimit(RLIMIT_AS, (MOST_BYTES, getrlimit(RLIMIT_AS)[1]))
    for module in modules:
        import_module(module)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the caller reports that a kernel ended the process
    with suppress(EOFError, BrokenPipeError):
        while True:
            function, arguments, options = pipe.recv()
            pipe.send(_run_function(function, arguments, options))


def _run_function(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    try:
        return function(*arguments, **options)
    except Exception as error:
        return error
