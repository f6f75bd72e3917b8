"""The garbage collector while planning, which makes objects by the million that live until its end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 50_000
"""That are made between two collections, at least, while planning. Python's own number is 700."""


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """The collector runs after every `OBJECTS` new objects, or as rarely as it did where that is rarer, or is off. Also a decorator."""
    before = gc.get_threshold()
    if not 0 < before[0] < OBJECTS:
        yield
        return
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
