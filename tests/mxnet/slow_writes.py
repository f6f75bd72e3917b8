"""Slow asynchronous writes of MXNet's engine, to test that readers wait for them."""

from __future__ import annotations

import ctypes
from typing import Any

import mxnet as mx
import numpy as np

WIDTH, PRODUCTS = 800, 8  # some hundred milliseconds


def write_slowly(array: Any) -> None:
    """Set an array to zeros after a chain of matrix products in another device's thread."""
    work = mx.nd.zeros((WIDTH, WIDTH), ctx=mx.cpu(99))
    for _ in range(PRODUCTS):
        work = mx.nd.dot(work, work)
    first = work[:1, :1].reshape((1,) * array.ndim)
    mx.nd.broadcast_to(first, shape=array.shape).astype(array.dtype).copyto(array)


def peek(array: Any) -> Any:
    """Read an array's host memory without waiting for pending writes."""
    pointer = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(array.handle, ctypes.byref(pointer)))
    items = int(np.prod(array.shape)) * np.dtype(array.dtype).itemsize
    return np.frombuffer(ctypes.string_at(pointer.value, items), array.dtype).reshape(array.shape)
