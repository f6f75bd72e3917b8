"""Operators without inputs, such as zeros and arange. They are replicated."""

from math import pi

from tdl_ops.mxnet import op
from tofu.errors import UnsupportedError
from tofu.tdl import constant, cos, floor, position, power, where

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
    if "int" in dtype:  # MXNet rounds the attributes towards zero first
        first, step = int(first), int(step)
    return lambda i: first + step * floor(position(i) / repeat)


@op("_linspace")
def linspace(*, start, stop, num, endpoint=True):
    step = (stop - start) / max(num - 1 if endpoint else num, 1)
    return lambda i: start + step * position(i)


@op("_npi_logspace")
def logspace(*, start, stop, num, endpoint=True, base=10.0):
    exponent = linspace.function(start=start, stop=stop, num=num, endpoint=endpoint)
    return lambda i: power(base, exponent(i))


# Factors of the cosines of 0, 1, .. periods, alternately added and subtracted.
WINDOWS = {"hanning": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08)}


def _describe_window(factors):
    def description(*, M, dtype="float32"):
        if "int" in dtype:
            raise UnsupportedError(f"a window of dtype={dtype} is not described: its numbers are cut")
        wave = lambda i, n: cos(position(i) * (2 * pi * n / max(M - 1, 1)))
        return lambda i: sum((-1) ** n * factor * wave(i, n) for n, factor in enumerate(factors))

    return description


for _name, _factors in WINDOWS.items():
    op(f"_npi_{_name}")(_describe_window(_factors))


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
