"""Seconds of the passes of the pipeline, and of what is done after it, in a process in which nothing was done before."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, TypeVar

from tofu.pipeline import Observer

T = TypeVar("T")


@dataclass
class Stages(Observer):
    """The pipeline's `Observer`, which keeps the values, too, and the seconds of all processors.

    A stage that is no pass is told of in the same way: `stages("bind", ShardedExecutor(...))`. Its seconds are those since the last one.
    """

    values: dict[str, Any] = field(default_factory=dict)
    processor_seconds: dict[str, float] = field(default_factory=dict)
    _used: float = field(default_factory=time.process_time)

    def __call__(self, name: str, value: T) -> T:
        """The value, whose stage has ended."""
        self.processor_seconds[name] = self.processor_seconds.get(name, 0.0) + time.process_time() - self._used
        self.values[name] = super().__call__(name, value)
        self._used = time.process_time()
        return value


def run_cold(work: Callable[..., T], *arguments: Any) -> T:
    """What a function returns in a separate process: neither analyses nor plans are remembered, and nothing is warm."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)
