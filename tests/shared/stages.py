"""Seconds of the passes of the pipeline."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tofu.pipeline import Observer

T = TypeVar("T")


@dataclass
class Stages(Observer):
    """`Observer` that also keeps the values and processor seconds of all passes.

    Other stages can be reported, too: `stages("bind", ShardedExecutor(...))`. Seconds count from the last stage.
    """

    values: dict[str, Any] = field(default_factory=dict)
    processor_seconds: dict[str, float] = field(default_factory=dict)
    _used: float = field(default_factory=time.process_time)

    def __call__(self, name: str, value: T) -> T:
        self.processor_seconds[name] = self.processor_seconds.get(name, 0.0) + time.process_time() - self._used
        self.values[name] = super().__call__(name, value)
        self._used = time.process_time()
        return value
