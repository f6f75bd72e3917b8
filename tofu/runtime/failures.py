"""What goes wrong while a model runs, told as one error: an operator that fails, memory that is not there, a forked process."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mxnet as mx

from tofu.errors import ExecutionError, OutOfMemoryError, TofuError, UnsupportedError
from tofu.plan import Plan, format_bytes

NO_MEMORY = re.compile(r"allocate|out of memory|bad_alloc", re.IGNORECASE)
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


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
    free = free_memory()
    try:
        yield
    except (MemoryError, mx.base.MXNetError) as error:
        if isinstance(error, TofuError) or not (isinstance(error, MemoryError) or is_lack_of_memory(error)):
            raise
        raise AllocationFailureError(describe_lack(plan, contexts, doing, free)) from error


def refuse_more_than_there_is(plan: Plan, contexts: Sequence[Any]) -> None:
    """Raise OutOfMemoryError for a plan that needs more than all the memory there is: it would be killed, not refused."""
    there = _memory_of_machine()
    if there is not None and _asked_of_host(plan, contexts) > there:
        raise AllocationFailureError(describe_lack(plan, contexts, "binding the model", free_memory()))


def describe_lack(plan: Plan, contexts: Sequence[Any], doing: str, free: int | None) -> str:
    """What was asked for, what was free, and what to do."""
    most = max(plan.worker_bytes, default=0)
    asked = _asked_of_host(plan, contexts)
    on_host = f", {format_bytes(asked)} on this machine's CPU together" if asked else ""
    there = "" if free is None else f" {format_bytes(free)} of its memory were free."
    return (
        f"There is not enough memory for {doing}: the plan needs up to {format_bytes(most)} on each of {plan.workers} workers"
        f"{on_host}.{there} What was bound before is as it was. Free what is not needed, take more workers on other devices or a smaller "
        "batch, or ask for a plan that fits with tofu.partition(..., memory_limit=...); tofu.memory_report(...) shows what takes the "
        "memory."
    )


def _asked_of_host(plan: Plan, contexts: Sequence[Any]) -> int:
    return sum(n for n, context in zip(plan.worker_bytes, contexts, strict=False) if context.device_type == "cpu")


def free_memory() -> int | None:
    """Bytes that this process can still have, as far as the system says."""
    known = [size for size in (_meminfo("MemAvailable"), _left_of_address_space()) if size is not None]
    return min(known, default=None)


def _left_of_address_space() -> int | None:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return max(0, limit - pages * resource.getpagesize())


def _memory_of_machine() -> int | None:
    memory, swap = _meminfo("MemTotal"), _meminfo("SwapTotal")
    limits = [int(text) for path in CGROUP_LIMITS if path.exists() and (text := path.read_text().strip()).isdigit()]
    known = [*limits, *([] if memory is None else [memory + (swap or 0)])]
    return min(known, default=None)


def _meminfo(name: str) -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:")), None)


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
