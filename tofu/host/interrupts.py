"""Let SIGTERM end a program like Ctrl-C, and delay both signals until a `with` block is complete."""

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
    """Raise Terminated in the main thread if SIGTERM arrives in the `with` block.

    Do nothing if the process ignores SIGTERM or has its own handler.
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
    """Delay a Ctrl-C or SIGTERM that arrives in the `with` block until the block is complete.

    Keep the block short. Outside the main thread, this function does nothing.
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
