"""Tensors of one number, made without any input."""

from __future__ import annotations

from tofu.tdl import constant, op

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
