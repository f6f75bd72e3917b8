"""Errors while a model runs: failed operators, lack of memory, and forked processes.

If an operator fails, MXNet raises an error each time that a caller waits for one of its outputs. To raise one error,
this module waits for all arrays.
"""

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
from tofu.formatting import format_bytes
from tofu.host.host_memory import read_free_bytes, read_total_bytes
from tofu.plan import Plan

NO_MEMORY = re.compile(r"allocate|out of memory|bad_alloc", re.IGNORECASE)
MEMORY_REMEDY = (
    "Models bound before are unchanged. Free memory, use more workers on other devices or a smaller batch, or ask for a plan that fits "
    "with tofu.partition(..., memory_limit=...). tofu.memory_report(...) shows what needs the memory."
)
SMALL_FRACTION = 0.25  # plans below this fraction of the free memory cause no garbage collection


class OperatorFailureError(ExecutionError, mx.base.MXNetError):  # type: ignore[misc]  # MXNet is untyped
    """An operator failed. Scripts can also catch this error as an MXNetError."""


class AllocationFailureError(OutOfMemoryError, mx.base.MXNetError):  # type: ignore[misc]  # MXNet is untyped
    """Memory could not be allocated. Scripts can also catch this error as an MXNetError."""


def find_failure(arrays: Sequence[Any]) -> Exception | None:
    """Wait for arrays, and return MXNet's first error or None."""
    failure: Exception | None = None
    for array in arrays:
        try:
            array.wait_to_read()
        except mx.base.MXNetError as error:  # noqa: PERF203  the errors of all arrays are cleared
            failure = failure or error.with_traceback(None)  # the frames of a traceback would keep the arrays alive
    return failure


def forget_failures(failure: Exception) -> Exception:
    """Wait for all operators, and clear MXNet's errors. Return one error with all messages."""
    try:
        mx.nd.waitall()
    except mx.base.MXNetError as other:
        if summarise(other) != summarise(failure):
            return ExecutionError(f"{summarise(failure)} Another operator failed as well: {summarise(other)}")
    return failure


def raise_failure(arrays: Sequence[Any]) -> None:
    """Wait for arrays, and raise MXNet's first error."""
    failure = find_failure(arrays)
    if failure is not None:
        try:
            raise failure
        finally:
            del failure  # the error refers to this frame, and the cycle would keep all arrays alive


def summarise(error: BaseException) -> str:
    """Return an MXNet error as one line without its stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    unknown_argument = next((line for line in lines if ", Possible Arguments:" in line), None)
    line = lines[-1]
    if unknown_argument is not None and line.startswith(", in operator"):
        line = unknown_argument.split(", Possible Arguments:")[0] + line
    return line.removeprefix("MXNetError: ")


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if memory could not be allocated."""
    return NO_MEMORY.search(str(error)) is not None


@contextmanager
def explaining_memory(plan: Plan, contexts: Sequence[Any], activity: str) -> Iterator[None]:
    """Raise OutOfMemoryError with advice if an allocation in the `with` block fails."""
    free = read_free_bytes()
    try:
        yield
    except (MemoryError, mx.base.MXNetError) as error:
        if isinstance(error, TofuError) or not (isinstance(error, MemoryError) or is_out_of_memory(error)):
            raise
        raise AllocationFailureError(describe_lack(plan, contexts, activity, free)) from error


def make_room(plan: Plan, contexts: Sequence[Any]) -> None:
    """Collect garbage before a large model is bound. Raise OutOfMemoryError if the model exceeds the machine's memory."""
    host_bytes = _count_host_bytes(plan, contexts)
    if host_bytes > SMALL_FRACTION * read_free_bytes() or any(c.device_type != "cpu" for c in contexts):
        gc.collect()
    if host_bytes > read_total_bytes():
        raise AllocationFailureError(describe_lack(plan, contexts, "binding the model", read_free_bytes()))


def describe_lack(plan: Plan, contexts: Sequence[Any], activity: str, free: float) -> str:
    """Return an error message with the bytes needed, the bytes free, and advice."""
    largest = max(plan.worker_bytes, default=0)
    host_bytes = _count_host_bytes(plan, contexts)
    on_host = f", {format_bytes(host_bytes)} on this machine's CPU together" if host_bytes else ""
    free_memory = "" if free == math.inf else f" {format_bytes(free)} of its memory were free."
    return (
        f"There is not enough memory for {activity}: the plan needs up to {format_bytes(largest)} on each of {plan.workers} workers"
        f"{on_host}.{free_memory} {MEMORY_REMEDY}"
    )


def _count_host_bytes(plan: Plan, contexts: Sequence[Any]) -> int:
    return sum(n for n, context in zip(plan.worker_bytes, contexts, strict=False) if context.device_type == "cpu")


def check_process(process_id: int) -> None:
    """Raise UnsupportedError in a fork of the process `process_id`, because MXNet cannot run in a fork."""
    if os.getpid() != process_id:
        raise UnsupportedError(
            f"This model was bound in process {process_id} and cannot run in {os.getpid()}, which was forked from it: a fork has "
            "no copy of the threads that run it. Run it in the process that bound it, or bind it again in the forked one."
        )
