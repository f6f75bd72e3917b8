"""What `benchmarks.multi_fetch` uses of CuPy, over NumPy: a GPU's memory is the host's, and time passes by a clock of its own.

Every event is a millisecond after the one before. Names are CuPy's.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np


class Array(np.ndarray):
    """An array with CuPy's ways to its address and to the host."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)

    def get(self):
        return np.array(self)


def _of(function):
    return lambda *arguments, **options: function(*arguments, **options).view(Array)


arange, asarray, empty, full, tile, zeros = map(_of, (np.arange, np.array, np.empty, np.full, np.tile, np.zeros))


class _Scope:
    def __enter__(self):
        return self

    def __exit__(self, *_): ...


class Device(_Scope):
    def __init__(self, number):
        assert number == 0

    def use(self): ...

    def synchronize(self): ...


class Stream(_Scope):
    ptr = 0

    def __init__(self, non_blocking):
        assert non_blocking


class Event:
    clock = itertools.count()

    def record(self, stream):
        self.milliseconds = next(Event.clock)

    def synchronize(self): ...


class CUDARuntimeError(RuntimeError):
    """As CuPy's; the emulation raises none."""


cuda = SimpleNamespace(
    Device=Device,
    Stream=Stream,
    Event=Event,
    nvrtc=SimpleNamespace(getVersion=lambda: (0, 1)),
    get_elapsed_time=lambda begin, end: end.milliseconds - begin.milliseconds,
    runtime=SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=lambda: 1,
        memGetInfo=lambda: (1 << 30, 1 << 30),
        memcpyAsync=lambda target, source, count, kind, stream: None,
        memcpyDeviceToDevice=3,
    ),
)


def get_default_memory_pool():
    return SimpleNamespace(free_all_blocks=lambda: None)
