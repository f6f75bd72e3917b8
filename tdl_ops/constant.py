"""Tensors that are made without any input: of one number, or of numbers that follow from the position, which every worker makes whole."""

from __future__ import annotations

from tofu.errors import UnsupportedError
from tofu.tdl import constant, floor, op, position, where

SHAPE = {"shape": lambda local: local.outputs[0].shape}


@op("_zeros", "_zeros_without_dtype", bound=SHAPE)
def zeros(*, shape=()):
    return lambda *i: constant(0.0)


@op("_ones", bound=SHAPE)
def ones(*, shape=()):
    return lambda *i: constant(1.0)


@op("_full", bound=SHAPE)
def full(*, value, shape=()):
    return lambda *i: constant(value)


@op("_arange")
def arange(*, start=0.0, stop=None, step=1.0, repeat=1, infer_range=False, dtype="float32"):
    first = 0.0 if stop is None and not infer_range else start
    if "int" in dtype:  # what is given is cut before it is added
        first, step = int(first), int(step)
    return lambda i: first + step * floor(position(i) / repeat)


@op("_linspace")
def linspace(*, start, stop, num, endpoint=True):
    step = (stop - start) / max(num - 1 if endpoint else num, 1)
    return lambda i: start + step * position(i)


@op("_eye")
def eye(*, N, M=0, k=0):
    return lambda i, j: where(position(j) - position(i) == k, 1.0, 0.0)


@op("_npi_arange")
def numpy_arange(*, start, stop=None, step=1.0, dtype="float32"):
    return arange.function(start=start, stop=stop, step=step, dtype=dtype)


@op("_npi_eye")
def numpy_eye(*, N, M=None, k=0):
    return eye.function(N=N, M=M, k=k)


@op("_npi_identity")
def identity(*, shape):
    if len(set(shape)) > 1:
        raise UnsupportedError(f"the identity of shape {shape} is not described: a square one is")
    return lambda i, j: where(position(i) == position(j), 1.0, 0.0)


@op("_npi_indices")
def indices(*, dimensions):
    return lambda d, *i: sum(where(position(d) == n, position(v), 0.0) for n, v in enumerate(i))
