"""Make garbage collection rarer during planning, because planning creates millions of long-lived objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 50_000
"""Number of new objects after which Python collects garbage during planning. Python's default is 700."""


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Collect garbage at most once per `NEW_OBJECTS` new objects in a `with` block."""
    thresholds = gc.get_threshold()
    if not 0 < thresholds[0] < NEW_OBJECTS:
        yield
        return
    gc.set_threshold(NEW_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
