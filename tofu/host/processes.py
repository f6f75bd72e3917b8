"""Run a function in parallel processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any, TypeVar

from tofu.host.interrupts import uninterrupted

T = TypeVar("T")


def map_in_processes(
    function: Callable[..., T],
    *arguments: Iterable[Any],
    jobs: int,
    start: Callable[..., None] | None = None,
    start_arguments: tuple[Any, ...] = (),
) -> Iterator[T]:
    """Run `map(function, *arguments)` in `jobs` new processes. Yield the results in order.

    Each process first calls `start(*start_arguments)`. All processes end when the caller stops iterating.
    """
    earlier_processes = {*active_children()}
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), start, start_arguments)
    try:
        with uninterrupted(), hidden_from_interrupts():
            results = pool.map(function, *arguments)
        yield from results
    except BaseException:
        for process in {*active_children()} - earlier_processes:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def hidden_from_interrupts(*other_signals: signal.Signals) -> Iterator[None]:
    """Hide Ctrl-C and `other_signals` from processes that start in the `with` block.

    This process receives the signals at the end of the block.
    """
    blocked_signals = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, *other_signals))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_signals)
