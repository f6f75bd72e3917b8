"""Run functions in separate processes."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")
Send = Callable[[Any], None]


@dataclass(frozen=True)
class Failure:
    reason: str


def run_cold(work: Callable[..., T], *arguments: Any) -> T:
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def run_isolated(
    work: Callable[..., None],
    *arguments: Any,
    seconds: float | None = None,
    later_seconds: float | None = None,
    memory_bytes: int | None = None,
) -> Iterator[Any]:
    """Yield what `work(send, *arguments)` sends from a new process, and a `Failure` if it fails.

    Crashes, time and memory of the process do not harm the caller.

    Parameters
    ----------
    seconds, later_seconds
        Time limit of the first message, and of each message after it.
    memory_bytes
        Limit of the memory that the process may allocate.
    """
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sender, memory_bytes, work, arguments), daemon=True)
    process.start()
    sender.close()
    limit = seconds
    try:
        while receiver.poll(limit):
            try:
                message = receiver.recv()
            except EOFError:
                break
            if message is None:
                return
            yield message
            if isinstance(message, Failure):
                return
            limit = later_seconds
        else:
            yield Failure(f"stopped after {limit:g} s")
            return
        process.join()
        yield Failure(_describe_exit(process.exitcode or 0))
    finally:
        process.kill()
        process.join()
        receiver.close()


def _run(sender: Connection, memory_bytes: int | None, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    try:
        work(sender.send, *arguments)
        sender.send(None)
    except KeyboardInterrupt:
        pass
    except Exception as error:
        sender.send(Failure(f"{type(error).__name__}: {error}"))


def _describe_exit(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
