"""Operators that draw random numbers that none of MXNet's operators draws. Some draw once for all cells, and are opaque as a whole."""

from __future__ import annotations

from benchmarks.evaluation.tensorflow import describe
from tofu.tdl import Any, Opaque, Random

SAMPLERS = "AllCandidate", "FixedUnigramCandidate", "LearnedUnigramCandidate", "LogUniformCandidate", "UniformCandidate"
UNSAFE = "ThreadUnsafeUnigramCandidate"


@describe("Multinomial", inputs=[(4, 5)], outputs=[(4, 6)])
def multinomial(logits):
    return lambda b, n: Random()(logits[b, Any])


@describe("ParameterizedTruncatedNormal", inputs=[(4,), (4,), (4,), (4,)], outputs=[(4, 6)])
def truncated_normal_of(*parameters):
    return lambda b, *n: Random()(*(parameter[b] for parameter in parameters))


@describe("TruncatedNormal", inputs=[], outputs=[(4, 5)])
def truncated_normal():
    return lambda *i: Random()()


@describe("RandomGamma", "RandomPoisson", inputs=[(3, 5)], outputs=[(4, 3, 5)])
def draw_for_each(parameter):
    """As many numbers as the first dimensions say, for each cell of the parameter."""
    return lambda *i: Random()(parameter[i[len(i) - parameter.ndim :]])


@describe("RandomShuffle", inputs=[(4, 5)], outputs=[(4, 5)])
def shuffle(value):
    """One permutation, drawn for all columns."""
    shuffled = Opaque(name="shuffle")
    return lambda *i: shuffled(value[(slice(None),) * value.ndim])[i]


@describe(*(f"{name}Sampler" for name in (*SAMPLERS, UNSAFE)), inputs=[(4, 2)], outputs=[(6,), (4, 2), (6,)])
def sample_candidates(classes):
    """Classes are drawn, maybe without repetition; how often each would be depends on how many had to be drawn."""
    sample = Opaque(name="sample_candidates")
    drawn = lambda: sample(classes[:, :])
    return lambda n: drawn()[0, n], lambda b, t: drawn()[1, b, t], lambda m: drawn()[2, m]
