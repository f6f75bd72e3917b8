"""Operators that work cell by cell: arithmetic with broadcasting, biases, quantization by ranges that are given."""

from __future__ import annotations

from benchmarks.evaluation.tensorflow import describe
from tofu.tdl import Max, Min, absolute, floor, maximum, minimum, rint, square, trunc, unread, where

TWO = {"inputs": [(4, 5), (4, 5)], "outputs": [(4, 5)]}

BINARY = {
    "FloorDiv": lambda x, y: floor(x / y),
    "SquaredDifference": lambda x, y: square(x - y),
    "TruncateDiv": lambda x, y: trunc(x / y),
}


def _describe(function):
    return lambda x, y: lambda *i: function(x.broadcast(*i), y.broadcast(*i))


for _name, _function in BINARY.items():
    describe(_name, **TWO)(_describe(_function))


@describe("ApproximateEqual", **TWO)
def approximate_equal(x, y, *, tolerance=1e-5):
    return lambda *i: absolute(x[i] - y[i]) < tolerance


@describe("BiasAdd", "BiasAddV1", inputs=[(2, 4, 5, 3), (3,)], outputs=[(2, 4, 5, 3)])
def bias_add(value, bias):
    return lambda *i: value[i] + bias[i[-1]]


@describe("Bucketize", inputs=[(4, 5)], outputs=[(4, 5)], attributes={"boundaries": (-0.5, 0.0, 0.5)})
def bucketize(x, *, boundaries):
    return lambda *i: sum((where(x[i] >= boundary, 1.0, 0.0) for boundary in boundaries), 0 * x[i])


@describe("CountUpTo", inputs=[()], outputs=[()])
def count_up_to(reference):
    """The number before it is counted up; TensorFlow fails at a limit."""
    return lambda: reference[()]


def _round_to_steps(x, low, high, bits):
    """The nearest of as many numbers as bits tell apart, evenly from low to high, both moved a little so that zero is one of them."""
    steps = 2**bits - 1
    scale = (high - low) / steps
    zero = minimum(float(steps), maximum(0.0, floor(0.5 - low / scale)))
    inside = maximum(-zero * scale, minimum((steps - zero) * scale, x))
    return (floor(inside / scale + zero + 0.5) - zero) * scale


@describe("FakeQuantWithMinMaxArgs", inputs=[(4, 5)], outputs=[(4, 5)])
def fake_quantize(x, *, low=-6.0, high=6.0, num_bits=8):
    return lambda *i: _round_to_steps(x[i], low, high, num_bits)


@describe("FakeQuantWithMinMaxVars", inputs=[(4, 5), (), ()], outputs=[(4, 5)])
@describe("FakeQuantWithMinMaxVarsPerChannel", inputs=[(4, 5), (5,), (5,)], outputs=[(4, 5)])
def fake_quantize_between(x, low, high, *, num_bits=8):
    return lambda *i: _round_to_steps(x[i], low.broadcast(*i), high.broadcast(*i), num_bits)


@describe("QuantizeAndDequantizeV2", inputs=[(4, 5), (), ()], outputs=[(4, 5)])
@describe("QuantizeAndDequantizeV3", inputs=[(4, 5), (), (), ()], outputs=[(4, 5)])
def quantize_and_dequantize(x, low, high, *bits, num_bits=8, range_given=False):
    """To signed integers and back. Where no range is given, it is that of all cells. V3 has the bits as a tensor too."""
    names, half = " ".join(f"k{d}" for d in range(x.ndim)), 2.0 ** (num_bits - 1)
    given = [one[()] for one in (low, high, *bits)]
    ends = given[:2] if range_given else [reducer(lambda *k: x[k], names=names) for reducer in (Min, Max)]
    # The largest number of steps to one with which both ends are integers that there are.
    fits = lambda end, integer: where(integer * end > 0, integer / end, float("inf"))
    scale = minimum(fits(ends[0], -half), fits(ends[1], half - 1))
    rounded = lambda cell: rint(maximum(-half, minimum(half - 1, cell * scale))) / scale
    return lambda *i: rounded(x[i]) + sum(map(unread, given))


@describe("Dequantize", inputs=[(4, 5), (), ()], outputs=[(4, 5)])
def dequantize(x, low, high):
    return lambda *i: low[()] + x[i] * (high[()] - low[()]) / 255


@describe("QuantizeV2", inputs=[(4, 5), (), ()], outputs=[(4, 5), (), ()])
def quantize(x, low, high):
    value = lambda cell: rint((cell - low[()]) * 255 / (high[()] - low[()]))
    return lambda *i: value(x[i]), lambda: low[()], lambda: high[()]
