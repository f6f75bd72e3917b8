from __future__ import annotations

from collections.abc import Callable

from tofu import tdl
from tofu.lowering import Lowering
from tofu.tdl import Max, Registry, Sum, output, scatter

Shape = tuple[int, ...]
DESCRIPTIONS = Registry()
SHAPES: dict[str, Callable[..., list[Shape]]] = {}


def operator(shapes, **options):
    def register_both(function):
        name = f"np.{function.__name__}"
        SHAPES[name] = shapes
        return DESCRIPTIONS.op(name, **options)(function)

    return register_both


def like_first(*inputs: Shape, **attributes: object) -> list[Shape]:
    return [inputs[0]]


@operator(lambda data, weight, bias: [(data[0], weight[0])])
def dense(data, weight, bias):
    return lambda b, o: Sum(lambda i: data[b, i] * weight[o, i]) + bias[o]


@operator(lambda a, b, turned=(False, False): [(a[turned[0]], b[not turned[1]])])
def product(a, b, *, turned=(False, False)):
    left, right = turned
    return lambda i, j: Sum(lambda k: a[(k, i) if left else (i, k)] * b[(j, k) if right else (k, j)])


@operator(lambda d_out, data, weight: [data, weight, (weight[0],)])
def dense_backward(d_out, data, weight):
    return (
        lambda b, i: Sum(lambda o: d_out[b, o] * weight[o, i]),
        lambda o, i: Sum(lambda b: d_out[b, o] * data[b, i]),
        lambda o: Sum(lambda b: d_out[b, o]),
    )


@operator(like_first)
def tanh(data):
    return lambda *i: tdl.tanh(data[i])


@operator(like_first)
def tanh_backward(d_out, out):
    return lambda *i: d_out[i] * (1 - out[i] ** 2)


# A worker that computes some positions x reads the elements around them, and does not pad.
PADDED = {"bound": {"pad": lambda local: 0 if local.is_split("x") else local.attributes["pad"]}, "pads": ("x",)}


@operator(lambda data, weight, pad: [(data[0], weight[0], data[2] + 2 * pad - weight[2] + 1)], **PADDED)
def convolve(data, weight, *, pad=0):
    return lambda n, co, x: Sum(lambda ci, d: data[n, ci, x + d - pad] * weight[co, ci, d])


@operator(lambda d_out, data, weight, pad: [data, weight], **PADDED)
def convolve_backward(d_out, data, weight, *, pad=0):
    return (
        scatter(lambda n, co, ci, x, d: ((n, ci, x + d - pad), d_out[n, co, x] * weight[co, ci, d])),
        lambda co, ci, d: Sum(lambda n, x: d_out[n, co, x] * data[n, ci, x + d - pad]),
    )


@operator(lambda data: [data[:2]])
def total(data):
    return lambda n, c: Sum(lambda x: data[n, c, x])


@operator(lambda d_out, length: [(*d_out, length)], bound={"length": "x"})
def total_backward(d_out, *, length):
    return output("n c x", lambda n, c, x: d_out[n, c], extents={"x": length})


@operator(lambda data: [data[:1]])
def largest(data):
    return lambda n: Max(lambda c: data[n, c])


@operator(like_first)
def softmax(data):
    def value(n, c):
        most = Max(lambda k: data[n, k])
        return tdl.exp(data[n, c] - most) / Sum(lambda j: tdl.exp(data[n, j] - most))

    return value


@operator(lambda data, most: [data[:1]])
def exponential_sum(data, most):
    return lambda n: Sum(lambda c: tdl.exp(data[n, c] - most[n]))


@operator(like_first)
def exponential_share(data, most, whole):
    return lambda n, c: tdl.exp(data[n, c] - most[n]) / whole[n]


def expand_softmax(parts) -> None:
    (data,) = parts.whole.inputs
    lines = parts.shape(0)[:1]
    most, whole = (parts.inner_tensor(name, lines) for name in ("most", "whole"))
    parts.inner_operator("most", "np.largest", {}, (data,), (most,))
    parts.inner_operator("whole", "np.exponential_sum", {}, (data, most), (whole,))
    parts.last_operator("np.exponential_share", {}, (data, most, whole))


LOWERINGS = {"np.softmax": Lowering(expand_softmax)}


@operator(lambda probabilities, labels: [probabilities[:1]])
def cross_entropy(probabilities, labels):
    return lambda n: Sum(lambda c: -labels[n, c] * tdl.log(probabilities[n, c]))


@operator(like_first)
def subtract(left, right):
    return lambda *i: left[i] - right[i]


@operator(like_first)
def add(left, right):
    return lambda *i: left[i] + right[i]


@operator(lambda data: [data[::-1]])
def transpose(data):
    return lambda i, j: data[j, i]


@operator(like_first)
def descend(weight, gradient, *, rate):
    return lambda *i: weight[i] - rate * gradient[i]
