"""Element-wise functions of one tensor, and their gradients.

MXNet's backward operator of f is `_backward_f(d_out, x)`. For functions in `FROM_OUTPUT`, x is the output of f. For all
other functions, x is the input.
"""

import math

import numpy as np

from tdl_ops.mxnet import op
from tofu.errors import UnsupportedError
from tofu.tdl import (
    absolute,
    cbrt,
    cos,
    cosh,
    elementwise,
    exp,
    functions,
    gamma,
    maximum,
    minimum,
    reciprocal,
    sign,
    sin,
    sinh,
    sqrt,
    trunc,
    unread,
    where,
)


def _digamma(x: float) -> float:
    """Return the derivative of log(gamma) (Abramowitz 6.3.18)."""
    if x <= 0:
        return _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    steps = max(0, math.ceil(10 - x))
    z = 1 / (x + steps) ** 2
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * 691 / 32760)))))
    return math.log(x + steps) - 0.5 / (x + steps) - series - sum(1 / (x + k) for k in range(steps))


def _inverse_erf(y: float) -> float:
    """Return the inverse of erf, by Newton's method from Winitzki's approximation."""
    logarithm = math.log1p(-y * y)
    middle = 2 / (math.pi * 0.147) + logarithm / 2
    x = math.copysign(math.sqrt(math.sqrt(middle**2 - logarithm / 0.147) - middle), y)
    for _ in range(4):
        x -= (math.erf(x) - y) * math.sqrt(math.pi) / 2 * math.exp(x * x)
    return x


digamma = elementwise("digamma", np.vectorize(_digamma, otypes=[float]))
erfinv = elementwise("erfinv", np.vectorize(_inverse_erf, otypes=[float]))

NUMPY_NAMES = """
    arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees exp expm1 floor log log10 log1p log2
    logical_not negative radians reciprocal rint sign sin sinh sqrt square tan tanh trunc
"""
"""Functions that have the same name in MXNet, in NumPy and in TDL."""
FUNCTIONS = {
    **{name: getattr(functions, name) for name in [*NUMPY_NAMES.split(), "erf", "gamma", "gammaln"]},
    "abs": absolute,
    "erfinv": erfinv,
    "fix": trunc,
    "rcbrt": lambda x: 1 / cbrt(x),
    "relu": lambda x: maximum(x, 0.0),
    "round": lambda x: trunc(x + 0.5 * sign(x)),
    "rsqrt": lambda x: 1 / sqrt(x),
    "sigmoid": lambda x: 1 / (1 + exp(-x)),
    "softsign": lambda x: x / (1 + absolute(x)),
    **dict.fromkeys(("_copy", "BlockGrad", "make_loss", "Cast", "_backward_cast", "_backward_amp_cast"), lambda x: x),
    "zeros_like": unread,
    "ones_like": lambda x: unread(x) + 1,
}

DERIVATIVES = {
    "abs": sign,
    "arccos": lambda x: -1 / sqrt(1 - x * x),
    "arccosh": lambda x: 1 / sqrt(x * x - 1),
    "arcsin": lambda x: 1 / sqrt(1 - x * x),
    "arcsinh": lambda x: 1 / sqrt(x * x + 1),
    "arctan": lambda x: 1 / (1 + x * x),
    "arctanh": lambda x: 1 / (1 - x * x),
    "cos": lambda x: -sin(x),
    "cosh": sinh,
    "degrees": lambda x: unread(x) + 180 / math.pi,
    "erf": lambda x: 2 / math.sqrt(math.pi) * exp(-x * x),
    "expm1": exp,
    "gamma": lambda x: gamma(x) * digamma(x),
    "gammaln": digamma,
    "log": reciprocal,
    "log10": lambda x: 1 / (x * math.log(10)),
    "log1p": lambda x: 1 / (1 + x),
    "log2": lambda x: 1 / (x * math.log(2)),
    "radians": lambda x: unread(x) + math.pi / 180,
    "rcbrt": lambda x: -1 / (3 * x * cbrt(x)),
    "reciprocal": lambda x: -1 / (x * x),
    "rsqrt": lambda x: -0.5 / (x * sqrt(x)),
    "sign": unread,
    "sin": cos,
    "sinh": cosh,
    "softsign": lambda x: 1 / (1 + absolute(x)) ** 2,
    "square": lambda x: 2 * x,
}
FROM_OUTPUT = {
    "cbrt": lambda y: 1 / (3 * y * y),
    "erfinv": lambda y: 0.5 * math.sqrt(math.pi) * exp(y * y),
    "relu": lambda y: where(y > 0, 1.0, 0.0),
    "sigmoid": lambda y: y * (1 - y),
    "sqrt": lambda y: 0.5 / y,
    "tan": lambda y: y * y + 1,
    "tanh": lambda y: 1 - y * y,
}


def _describe(function):
    return lambda data: lambda *i: function(data[i])


def _describe_gradient(derivative):
    return lambda d_out, x: lambda *i: d_out[i] * derivative(x[i])


for _name, _function in FUNCTIONS.items():
    op(_name)(_describe(_function))
for _name, _derivative in (DERIVATIVES | FROM_OUTPUT).items():
    op(f"_backward_{_name}")(_describe_gradient(_derivative))


@op("hard_sigmoid")
def hard_sigmoid(data, *, alpha=0.2, beta=0.5):
    return lambda *i: maximum(0.0, minimum(1.0, alpha * data[i] + beta))


@op("_backward_hard_sigmoid")
def backward_hard_sigmoid(d_out, data, *, alpha=0.2, beta=0.5):
    inside = lambda x: (alpha * x + beta > 0) & (alpha * x + beta < 1)
    return lambda *i: where(inside(data[i]), alpha * d_out[i], 0.0)


@op("amp_cast")
def amp_cast(data, *, dtype):
    if "float" not in dtype:
        raise UnsupportedError(f"dtype={dtype} is not described: MXNet's kernels round some numbers and cut others")
    return lambda *i: data[i]


@op("clip")
def clip(data, *, a_min, a_max):
    return lambda *i: maximum(a_min, minimum(a_max, data[i]))


@op("_backward_clip")
def backward_clip(d_out, data, *, a_min, a_max):
    return lambda *i: where((data[i] >= a_min) & (data[i] <= a_max), d_out[i], 0.0)


@op("smooth_l1")
def smooth_l1(data, *, scalar=1.0):
    s = scalar * scalar
    return lambda *i: where(absolute(data[i]) > 1 / s, absolute(data[i]) - 0.5 / s, 0.5 * data[i] * data[i] * s)


@op("_backward_smooth_l1")
def backward_smooth_l1(d_out, data, *, scalar=1.0):
    s = scalar * scalar
    return lambda *i: d_out[i] * where(absolute(data[i]) > 1 / s, sign(data[i]), s * data[i])
