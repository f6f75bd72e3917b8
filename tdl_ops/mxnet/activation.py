"""Activation functions: Activation and LeakyReLU, and their gradients.

LeakyReLU(act_type="rrelu") is not described: in MXNet 1.9.1 it crashes on CPUs.
"""

import math

import numpy as np

from tdl_ops.mxnet import op
from tofu.errors import UnsupportedError
from tofu.tdl import absolute, erf, exp, expm1, log1p, maximum, minimum, output, scatter, tanh, unread, where

FUNCTIONS = {
    "relu": lambda x: maximum(x, 0.0),
    "sigmoid": lambda x: 1 / (1 + exp(-x)),
    "tanh": tanh,
    "softrelu": lambda x: log1p(exp(x)),
    "softsign": lambda x: x / (1 + absolute(x)),
}
# Derivatives as functions of the output y (for softsign, of the input x).
DERIVATIVES = {
    "relu": lambda y, x: where(y > 0, 1.0, 0.0),
    "sigmoid": lambda y, x: y * (1 - y),
    "tanh": lambda y, x: 1 - y * y,
    "softrelu": lambda y, x: 1 - exp(-y),
    "softsign": lambda y, x: 1 / (1 + absolute(x)) ** 2,
}

SELU_ALPHA, SELU_LAMBDA = 1.6732632423543772, 1.0507009873554805
# MXNet computes gelu with these constants in single precision, whatever the type of the data.
SQRT_2, SQRT_2_PI = float(np.float32(math.sqrt(2))), float(np.float32(math.sqrt(2 * math.pi)))
LEAKY_FUNCTIONS = {
    "leaky": lambda x, slope: where(x > 0, x, slope * x),
    "elu": lambda x, slope: where(x > 0, x, slope * expm1(x)),
    "selu": lambda x, slope: SELU_LAMBDA * where(x > 0, x, SELU_ALPHA * expm1(x)),
    "gelu": lambda x, slope: 0.5 * x * (1 + erf(x / SQRT_2)),
}
LEAKY_DERIVATIVES = {
    "leaky": lambda x, y, slope: where(x > 0, 1.0, slope),
    "elu": lambda x, y, slope: where(x > 0, 1.0, slope + y),
    # As in MXNet: its derivative of selu is SELU_LAMBDA * SELU_ALPHA + y for negative x.
    "selu": lambda x, y, slope: SELU_LAMBDA * where(x > 0, 1.0, SELU_ALPHA + y),
    "gelu": lambda x, y, slope: 0.5 * (1 + erf(x / SQRT_2)) + x * exp(-0.5 * x * x) / SQRT_2_PI,
}


@op("Activation")
def activation(data, *, act_type):
    return lambda *i: FUNCTIONS[act_type](data[i])


@op("_backward_Activation")
def backward_activation(d_out, out, data=None, *, act_type):
    derivative = DERIVATIVES[act_type]
    if data is None:
        return lambda *i: d_out[i] * derivative(out[i], None)
    # MXNet's kernels read `out` or `data`, and oneDNN's kernels read the other.
    return lambda *i: d_out[i] * derivative(out[i], data[i]) + 0 * (out[i] + data[i])


@op("LeakyReLU", concrete=True)
def leaky_relu(data, gamma=None, *, act_type="leaky", slope=0.25):
    if act_type == "prelu":
        at = _find_slope(data, gamma)
        return lambda *i: LEAKY_FUNCTIONS["leaky"](data[i], gamma[at(i)])
    return lambda *i: LEAKY_FUNCTIONS[act_type](data[i], slope)


@op("_backward_LeakyReLU", concrete=True)
def backward_leaky_relu(d_out, *saved, act_type="leaky", slope=0.25):
    if act_type != "prelu":
        data, out = saved
        derivative = LEAKY_DERIVATIVES[act_type]
        # Input and output have the same sign, and kernels read it from either.
        return lambda *i: d_out[i] * derivative(data[i], out[i], slope) + 0 * (data[i] + out[i])
    data, gamma, out = saved
    at = _find_slope(data, gamma)
    d_data = output("*i", lambda *i: where(data[i] > 0, d_out[i], d_out[i] * gamma[at(i)]) + unread(out[i]))
    return d_data, scatter(lambda *i: (at(i), d_out[i] * minimum(data[i], 0.0)), rank=data.ndim)


def _find_slope(data, gamma):
    # A `gamma` of shape (3,) has a slope for each channel of data of shape (2, 3, 5). MXNet also accepts it for data of
    # shape (3, 4, 5). Tofu does not, because a shard could fit both ways.
    first = min(data.ndim, 2) - gamma.ndim
    fits = lambda d: gamma.is_one(d) or gamma.shape[d] == data.shape[first + d]
    if first < 0 or not all(map(fits, range(gamma.ndim))):
        raise UnsupportedError(
            f"LeakyReLU(act_type=prelu) is described for a gamma that fits {data.shape[:2]} from the right, not for {gamma.shape}; "
            "reshape it, (n, 1) for a slope of each sample"
        )
    return lambda i: tuple(0 if gamma.is_one(d) else i[first + d] for d in range(gamma.ndim))
