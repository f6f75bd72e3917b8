"""Make SIGTERM act like Ctrl-C, and delay both signals during a `with` block."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. The program ends as after Ctrl-C."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` if SIGTERM arrives in the `with` block.

    Do nothing outside the main thread, or if the program already handles or ignores SIGTERM.
    """
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
    """Delay Ctrl-C and SIGTERM until the end of the `with` block.

    Do nothing outside the main thread. Keep the block short.
    """
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    previous_handlers = {number: signal.getsignal(number) for number in numbers}
    handlers = {number: handler for number, handler in previous_handlers.items() if callable(handler)}
    frame_by_signal: dict[int, Any] = {}
    for number in handlers:
        signal.signal(number, frame_by_signal.__setitem__)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for received_number, frame in frame_by_signal.items():
            handlers[signal.Signals(received_number)](received_number, frame)
