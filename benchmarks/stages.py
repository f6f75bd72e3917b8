"""Seconds of the stages of one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class Stages:
    """Seconds of each stage, in the order in which they ran: by the clock, and of all processors."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.processor_seconds: dict[str, float] = {}

    def run(self, stage: str, work: Callable[[], Result]) -> Result:
        """Do `work` and add the time to what `stage` has taken so far."""
        started, used = time.perf_counter(), time.process_time()
        result = work()
        self.seconds[stage] = self.seconds.get(stage, 0) + time.perf_counter() - started
        self.processor_seconds[stage] = self.processor_seconds.get(stage, 0) + time.process_time() - used
        return result
