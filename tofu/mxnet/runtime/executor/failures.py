"""What goes wrong while a model runs, told as one error: an operator that fails, memory that is not there, a forked process."""

from __future__ import annotations

import gc
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mxnet as mx

from tofu.errors import ExecutionError, OutOfMemoryError, TofuError, UnsupportedError
from tofu.host.host_memory import read_free_bytes, read_total_bytes
from tofu.plan import Plan, format_bytes

NO_MEMORY = re.compile(r"allocate|out of memory|bad_alloc", re.IGNORECASE)
REMEDY_OF_LACK = (
    "What was bound before is as it was. Free what is not needed, take more workers on other devices or a smaller batch, or ask for a plan "
    "that fits with tofu.partition(..., memory_limit=...); tofu.memory_report(...) shows what takes the memory."
)
SMALL_PART = 0.25  # of the memory that is free: a plan that takes less has Python's garbage wait


class OperatorFailureError(ExecutionError, mx.base.MXNetError):  # type: ignore[misc]  # MXNet is untyped
    """Also MXNet's error, so that scripts which catch that go on."""


class AllocationFailureError(OutOfMemoryError, mx.base.MXNetError):  # type: ignore[misc]  # MXNet is untyped
    """Also MXNet's error, so that scripts which catch that go on."""


def find_failure(arrays: Sequence[Any]) -> Exception | None:
    """The first error of the operators that wrote the arrays, once they are done.

    MXNet forgets it then, so that the arrays may be written again.
    """
    failures = [failure for array in arrays if (failure := _wait(array)) is not None]
    return failures[0] if failures else None


def _wait(array: Any) -> Exception | None:
    failure: Exception | None = None
    try:
        array.wait_to_read()
    except mx.base.MXNetError as error:
        failure = error.with_traceback(None)  # whose frames would keep the arrays
    return failure


def forget_failures(failure: Exception) -> Exception:
    """Have MXNet forget what else failed beside the failure, in arrays that nobody can read: with it at hand MXNet cannot fork.

    MXNet then forgets what failed in arrays of others, too. Where there is such an error the one returned tells of it.
    """
    try:
        mx.nd.waitall()
    except mx.base.MXNetError as other:
        if summarise(other) != summarise(failure):
            return ExecutionError(f"{summarise(failure)} And elsewhere, which MXNet forgets now: {summarise(other)}")
    return failure


def raise_failure(arrays: Sequence[Any]) -> None:
    """Raise the first error of the operators that wrote the arrays, if there is one."""
    failure = find_failure(arrays)
    if failure is not None:
        try:
            raise failure
        finally:
            del (
                failure
            )  # it knows this frame, and would be kept with all that was being bound until garbage is collected


def summarise(error: BaseException) -> str:
    """An error of MXNet's in one line, without its own files and calls."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].removeprefix("MXNetError: ") if lines else type(error).__name__


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an error of MXNet's says that it could not allocate."""
    return NO_MEMORY.search(str(error)) is not None


@contextmanager
def explaining_memory(plan: Plan, contexts: Sequence[Any], doing: str) -> Iterator[None]:
    """Raise OutOfMemoryError where what runs inside fails to allocate: what was asked for, what there was, what to do."""
    free = read_free_bytes()
    try:
        yield
    except (MemoryError, mx.base.MXNetError) as error:
        if isinstance(error, TofuError) or not (isinstance(error, MemoryError) or is_lack_of_memory(error)):
            raise
        raise AllocationFailureError(describe_lack(plan, contexts, doing, free)) from error


def make_room(plan: Plan, contexts: Sequence[Any]) -> None:
    """Have Python free what nobody can reach any more where a plan takes much of the memory that is left: MXNet's blocks and modules
    refer to themselves, so that one which was dropped keeps its arrays until then. Raises OutOfMemoryError for a plan that needs more than
    all the memory there is: it would be killed, not refused.
    """
    if _asked_of_host(plan, contexts) > SMALL_PART * read_free_bytes() or any(c.device_type != "cpu" for c in contexts):
        gc.collect()
    if _asked_of_host(plan, contexts) > read_total_bytes():
        raise AllocationFailureError(describe_lack(plan, contexts, "binding the model", read_free_bytes()))


def describe_lack(plan: Plan, contexts: Sequence[Any], doing: str, free: float) -> str:
    """What was asked for, what was free, and what to do."""
    most = max(plan.worker_bytes, default=0)
    asked = _asked_of_host(plan, contexts)
    on_host = f", {format_bytes(asked)} on this machine's CPU together" if asked else ""
    there = "" if free == math.inf else f" {format_bytes(free)} of its memory were free."
    return (
        f"There is not enough memory for {doing}: the plan needs up to {format_bytes(most)} on each of {plan.workers} workers"
        f"{on_host}.{there} {REMEDY_OF_LACK}"
    )


def _asked_of_host(plan: Plan, contexts: Sequence[Any]) -> int:
    return sum(n for n, context in zip(plan.worker_bytes, contexts, strict=False) if context.device_type == "cpu")


class BirthProcess:
    """The process in which something was bound: MXNet's threads and the memory they work on are not another's."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def check(self) -> None:
        """Raise UnsupportedError in a forked process."""
        if os.getpid() != self._process:
            raise UnsupportedError(
                f"This model was bound in process {self._process} and cannot run in {os.getpid()}, which was forked from it: the threads "
                "that run it were not forked. Run it in the process that bound it, or bind it anew in the forked one."
            )
