"""Operators that work cell by cell: arithmetic with broadcasting, biases, quantization by ranges that are given."""

from __future__ import annotations

from benchmarks.evaluation.tensorflow import describe
from tofu.tdl import Max, absolute, floor, maximum, minimum, rint, square, trunc, unread, where

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


def _round_to_steps(x, low, high, bits=8):
    """The nearest of as many numbers as bits tell apart, evenly from low to high."""
    steps = 2**bits - 1
    return rint((maximum(low, minimum(high, x)) - low) * steps / (high - low)) * (high - low) / steps + low


@describe("FakeQuantWithMinMaxArgs", inputs=[(4, 5)], outputs=[(4, 5)])
def fake_quantize(x, *, low=-6.0, high=6.0, num_bits=8):
    return lambda *i: _round_to_steps(x[i], low, high, num_bits)


@describe("FakeQuantWithMinMaxVars", inputs=[(4, 5), (), ()], outputs=[(4, 5)])
@describe("FakeQuantWithMinMaxVarsPerChannel", inputs=[(4, 5), (5,), (5,)], outputs=[(4, 5)])
def fake_quantize_between(x, low, high, *, num_bits=8):
    return lambda *i: _round_to_steps(x[i], low.broadcast(*i), high.broadcast(*i), num_bits)


@describe("QuantizeAndDequantizeV2", inputs=[(4, 5), (), ()], outputs=[(4, 5)])
@describe("QuantizeAndDequantizeV3", inputs=[(4, 5), (), (), ()], outputs=[(4, 5)])
def quantize_and_dequantize(x, low, high, bits=None, *, num_bits=8, range_given=False):
    """The range is that of all cells, where none is given."""
    others = (
        unread(low[()]) + unread(high[()]) if bits is None else unread(low[()]) + unread(high[()]) + unread(bits[()])
    )
    names = " ".join(f"k{d}" for d in range(x.ndim))
    largest = Max(lambda *k: absolute(x[k]), names=names)
    if range_given:
        return lambda *i: _round_to_steps(x[i], low[()], high[()], num_bits)
    return lambda *i: _round_to_steps(x[i], -largest, largest, num_bits) + others


@describe("Dequantize", inputs=[(4, 5), (), ()], outputs=[(4, 5)])
def dequantize(x, low, high):
    return lambda *i: low[()] + x[i] * (high[()] - low[()]) / 255


@describe("QuantizeV2", inputs=[(4, 5), (), ()], outputs=[(4, 5), (), ()])
def quantize(x, low, high):
    value = lambda cell: rint((cell - low[()]) * 255 / (high[()] - low[()]))
    return lambda *i: value(x[i]), lambda: low[()], lambda: high[()]
