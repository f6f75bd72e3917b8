"""Ctrl-C that waits until steps that belong together are done, and SIGTERM that unwinds the stack like it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. It unwinds the stack like Ctrl-C, so that files and processes are cleaned up."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise Terminated if SIGTERM arrives in the block, unless the process ignores or handles it. Only for the main thread."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _raise_terminated(_number: int, _frame: Any) -> None:
    raise Terminated


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Complete the block, and deliver an interrupt that arrives meanwhile at its end.

    For blocks of milliseconds: issuing work to a framework, replacing one state by another. Only the main thread is
    interrupted.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    arrived: list[Any] = []
    signal.signal(signal.SIGINT, lambda _, frame: arrived.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if arrived:
            handler(signal.SIGINT, arrived[-1])
