"""Operators that read or write where data says: written as sums over all places of those that the data names."""

from __future__ import annotations

import sys

from benchmarks.evaluation.tensorflow import describe
from tofu.tdl import Max, Prod, Sum, position, where

SEGMENTS = {"inputs": [(6, 5), (6,)], "outputs": [(4, 5)]}


def _names(count):
    return " ".join(f"n{d}" for d in range(count))


@describe("Bincount", inputs=[(6,), (6,)], outputs=[(4,)])
def bincount(numbers, weights):
    return lambda bin: Sum(lambda n: where(numbers[n] == position(bin), weights[n], 0.0))


@describe("InvertPermutation", inputs=[(5,)], outputs=[(5,)])
def invert_permutation(x):
    return lambda i: Sum(lambda n: where(x[n] == position(i), position(n), 0.0))


@describe("UnsortedSegmentSum", **SEGMENTS)
def segment_sum(data, segments):
    inside = lambda n, v, s: where(segments[n] == position(v), data[(*n, *s)], 0.0)
    return lambda v, *s: Sum(lambda *n: inside(n, v, s), names=_names(segments.ndim))


@describe("UnsortedSegmentMax", **SEGMENTS)
def segment_max(data, segments):
    """The least number of the type, double precision here, where nothing is in a segment."""
    inside = lambda n, v, s: where(segments[n] == position(v), data[(*n, *s)], -sys.float_info.max)
    return lambda v, *s: Max(lambda *n: inside(n, v, s), names=_names(segments.ndim))


@describe("ScatterDiv", inputs=[(4, 5), (6,), (6, 5)], outputs=[(4, 5)])
def scatter_div(reference, indices, updates):
    divisor = lambda n, v, s: where(indices[n] == position(v), updates[(*n, *s)], 1.0)
    return lambda v, *s: reference[(v, *s)] / Prod(lambda *n: divisor(n, v, s), names=_names(indices.ndim))
