"""Operators on quantized tensors: bytes that stand for numbers between two others, which are scalars and are given as well as returned.

Sums and concatenations are described by the numbers that the bytes stand for; how TensorFlow's kernels round in between is left out.
"""

from __future__ import annotations

from functools import reduce

from benchmarks.evaluation.tensorflow import describe
from benchmarks.evaluation.tensorflow.descriptions.windows import find_cells
from tofu.tdl import (
    Max,
    Min,
    Opaque,
    Sum,
    absolute,
    maximum,
    minimum,
    output,
    position,
    rint,
    sqrt,
    square,
    unread,
    where,
)

STEPS = 255.0
HALF = 2.0**31
IMAGES, RANGE = (2, 5, 6, 3), [(), ()]


def _number(cell, low, high):
    """The number that a byte stands for."""
    return low[()] + cell * (high[()] - low[()]) / STEPS


def _wide_number(cell, low, high):
    """The number that a 32-bit integer stands for, the least of which is negative."""
    return low[()] + (cell + HALF) * (high[()] - low[()]) / (2 * HALF - 1)


def _byte(number, low, high):
    """The byte that stands for a number."""
    return rint((maximum(low, minimum(high, number)) - low) * STEPS / (high - low))


def _range(low, high):
    """The outputs that say which range it is, where it is that of an input."""
    return lambda: low[()], lambda: high[()]


def _centre(cell, low, high):
    """A cell less the one that stands for zero."""
    return cell - rint(-low[()] * STEPS / (high[()] - low[()]))


def _product_range(low_a, high_a, low_b, high_b):
    """The numbers at the ends of the 32-bit integers that sums of products of centred cells are."""
    level = lambda low, high: (high[()] - low[()]) / STEPS
    limit = lambda: level(low_a, high_a) * level(low_b, high_b) * HALF
    return lambda: -limit(), lambda: limit()


def _add(number, ranges, headroom):
    """A sum as 32-bit integers, whose range has room for so many further sums."""
    ends = [absolute(end[()]) for end in ranges]
    limit = lambda: maximum(maximum(*ends[:2]), maximum(*ends[2:])) * headroom
    return (lambda *i: rint(number(i) * HALF / limit())), lambda: -limit(), lambda: limit()


@describe("QuantizedAdd", inputs=[(4, 5), (4, 5), *RANGE, *RANGE], outputs=[(4, 5), *RANGE])
def quantized_add(x, y, *ranges):
    number = lambda i: _number(x.broadcast(*i), *ranges[:2]) + _number(y.broadcast(*i), *ranges[2:])
    return _add(number, ranges, 2.0**14)


@describe("QuantizedMul", inputs=[(4, 5), (4, 5), *RANGE, *RANGE], outputs=[(4, 5), *RANGE])
def quantized_mul(x, y, low_x, high_x, low_y, high_y):
    value = lambda i: _centre(x.broadcast(*i), low_x, high_x) * _centre(y.broadcast(*i), low_y, high_y)
    return (lambda *i: value(i)), *_product_range(low_x, high_x, low_y, high_y)


@describe("QuantizedBiasAdd", inputs=[(4, 5), (5,), *RANGE, *RANGE], outputs=[(4, 5), *RANGE])
def quantized_bias_add(x, bias, *ranges):
    return _add(lambda i: _number(x[i], *ranges[:2]) + _number(bias[i[-1]], *ranges[2:]), ranges, 2.0**17)


@describe("QuantizedRelu", inputs=[(4, 5), *RANGE], outputs=[(4, 5), *RANGE])
@describe("QuantizedRelu6", inputs=[(4, 5), *RANGE], outputs=[(4, 5), *RANGE], attributes={"most": 6.0})
@describe("QuantizedReluX", inputs=[(4, 5), (), *RANGE], outputs=[(4, 5), *RANGE])
def quantized_relu(x, *given, most=float("inf")):
    *limit, low, high = given
    most = limit[0][()] if limit else most
    value = lambda i: minimum(most, maximum(0.0, _number(x[i], low, high)))
    return (lambda *i: _byte(value(i), low[()], high[()])), *_range(low, high)


@describe("Requantize", inputs=[(4, 5), *RANGE, *RANGE], outputs=[(4, 5), *RANGE])
def requantize(x, low, high, low_wanted, high_wanted):
    value = lambda i: _byte(_wide_number(x[i], low, high), low_wanted[()], high_wanted[()])
    return (lambda *i: value(i)), *_range(low_wanted, high_wanted)


def _find_range(x, low, high):
    """The least and the largest number of a tensor."""
    names = " ".join(f"k{d}" for d in range(x.ndim))
    of_all = lambda reducer: _wide_number(reducer(lambda *k: x[k], names=names), low, high)
    return of_all(Min), of_all(Max)


@describe("RequantizationRange", inputs=[(4, 5), *RANGE], outputs=RANGE)
def requantization_range(x, low, high):
    return lambda: _find_range(x, low, high)[0], lambda: _find_range(x, low, high)[1]


@describe("QuantizeDownAndShrinkRange", inputs=[(4, 5), *RANGE], outputs=[(4, 5), *RANGE])
def quantize_down(x, low, high):
    ends = lambda: _find_range(x, low, high)
    return (lambda *i: _byte(_wide_number(x[i], low, high), *ends())), lambda: ends()[0], lambda: ends()[1]


@describe("QuantizedConcat", inputs=[(4, 2), (4, 3), *RANGE, *RANGE], outputs=[(4, 5), *RANGE], attributes={"axis": 1})
def quantized_concat(*operands, axis):
    """Tensors, then their least, then their largest numbers. The range of all has zero in it."""
    n = len(operands) // 3
    tensors, lows, highs = operands[:n], operands[n : 2 * n], operands[2 * n :]

    low = lambda: reduce(minimum, (one[()] for one in lows), 0.0)
    high = lambda: reduce(maximum, (one[()] for one in highs))

    def value(i):
        before, parts = 0, []
        for tensor, own_low, own_high in zip(tensors, lows, highs, strict=True):
            inside = tensor[(*i[:axis], i[axis] - before, *i[axis + 1 :])]
            before = before + tensor.shape[axis]
            parts.append((position(before), _byte(_number(inside, own_low, own_high), low(), high())))
        choose = lambda rest, part: where(position(i[axis]) < part[0], part[1], rest)
        return reduce(choose, reversed(parts[:-1]), parts[-1][1])

    return (lambda *i: value(i)), low, high


@describe("QuantizedReshape", inputs=[(4, 3, 5), *RANGE], outputs=[(4, 15), *RANGE])
def quantized_reshape(x, low, high):
    """To a matrix; other shapes are MXNet's Reshape of the cells."""
    extents = {f"s{d}": x.shape[d + 1] for d in range(x.ndim - 1)}
    return output(f"b ({' '.join(extents)})", lambda *v: x[v], extents), *_range(low, high)


@describe("QuantizedMatMul", inputs=[(4, 6), (6, 5), *RANGE, *RANGE], outputs=[(4, 5), *RANGE])
def quantized_matmul(a, b, low_a, high_a, low_b, high_b):
    product = lambda i, j, k: _centre(a[i, k], low_a, high_a) * _centre(b[k, j], low_b, high_b)
    return (lambda i, j: Sum(lambda k: product(i, j, k))), *_product_range(low_a, high_a, low_b, high_b)


@describe("QuantizedConv2D", inputs=[IMAGES, (2, 2, 3, 4), *RANGE, *RANGE], outputs=[(2, 4, 5, 4), *RANGE])
def quantized_convolution(data, weight, low, high, low_w, high_w, *, strides=(1, 1), before=(0, 0)):
    at = find_cells(strides, before)
    read = lambda b, y, x, v, u, c: _centre(data[(b, *at((y, x), (v, u)), c)], low, high)
    product = lambda b, y, x, o, v, u, c: read(b, y, x, v, u, c) * _centre(weight[v, u, c, o], low_w, high_w)
    value = lambda b, y, x, o: Sum(lambda v, u, c: product(b, y, x, o, v, u, c))
    return value, *_product_range(low, high, low_w, high_w)


@describe("QuantizedAvgPool", inputs=[IMAGES, *RANGE], outputs=[(2, 4, 5, 3), *RANGE])
def quantized_average_pooling(data, low, high, *, sizes=(2, 2), strides=(1, 1), before=(0, 0)):
    at, extents = find_cells(strides, before), dict(zip("vu", sizes, strict=True))
    total = lambda b, y, x, c: Sum(lambda v, u: data[(b, *at((y, x), (v, u)), c)], extents=extents)
    return (lambda b, y, x, c: total(b, y, x, c) / (sizes[0] * sizes[1])), *_range(low, high)


@describe("QuantizedMaxPool", inputs=[IMAGES, *RANGE], outputs=[(2, 4, 5, 3), *RANGE])
def quantized_max_pooling(data, low, high, *, sizes=(2, 2), strides=(1, 1), before=(0, 0)):
    at, extents = find_cells(strides, before), dict(zip("vu", sizes, strict=True))
    largest = lambda b, y, x, c: Max(lambda v, u: data[(b, *at((y, x), (v, u)), c)], extents=extents)
    return largest, *_range(low, high)


@describe(
    "QuantizedBatchNormWithGlobalNormalization",
    inputs=[IMAGES, *RANGE, *[(3,), *RANGE] * 4],
    outputs=[IMAGES, *RANGE],
)
def quantized_batch_norm(data, low, high, *moments, epsilon=1e-3):
    """Mean, variance, beta and gamma follow, each with its range. The result is 32-bit integers, whose range is always the same."""
    largest = 2.0**20
    end = lambda sign: lambda: unread(low[()]) + sign * largest

    def value(b, y, x, c):
        mean, variance, beta, gamma = (_number(moments[3 * n][c], *moments[3 * n + 1 : 3 * n + 3]) for n in range(4))
        return (_number(data[b, y, x, c], low, high) - mean) * gamma / sqrt(variance + epsilon) + beta

    return (lambda b, y, x, c: rint(value(b, y, x, c) * HALF / largest)), end(-1), end(1)


@describe("QuantizedInstanceNorm", inputs=[IMAGES, *RANGE], outputs=[IMAGES, *RANGE])
def quantized_instance_norm(data, low, high, *, epsilon=1e-5, least=-4.0, largest=4.0):
    """With a range of the result that is given: else it is that of all results."""
    number = lambda b, y, x, c: _number(data[b, y, x, c], low, high)
    count = position(data.shape[1] * data.shape[2])
    mean = lambda b, c: Sum(lambda h, w: number(b, h, w, c)) / count
    variance = lambda b, c: Sum(lambda v, u: square(number(b, v, u, c) - mean(b, c))) / count
    value = lambda b, y, x, c: (number(b, y, x, c) - mean(b, c)) / sqrt(variance(b, c) + epsilon)
    ends = (lambda: unread(low[()]) + least), lambda: unread(high[()]) + largest
    return (lambda b, y, x, c: _byte(value(b, y, x, c), least, largest)), *ends


@describe("QuantizedResizeBilinear", inputs=[IMAGES, *RANGE], outputs=[(2, 7, 4, 3), *RANGE])
def quantized_resize(images, low, high):
    resize = Opaque(name="resize")
    return (lambda b, y, x, c: resize(images[b, :, :, c])[y, x]), *_range(low, high)
