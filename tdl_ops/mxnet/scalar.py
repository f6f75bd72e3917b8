"""Element-wise operators of a tensor and a number, the attribute `scalar`, and their gradients."""

import math

from tdl_ops.mxnet import op
from tofu.tdl import floor, hypot, log, logical_and, logical_or, logical_xor, maximum, minimum, mod, power, where

FUNCTIONS = {
    "_plus_scalar": lambda x, s: x + s,
    "_minus_scalar": lambda x, s: x - s,
    "_rminus_scalar": lambda x, s: s - x,
    "_mul_scalar": lambda x, s: x * s,
    "_backward_mul_scalar": lambda d, s: d * s,
    "_div_scalar": lambda x, s: x / s,
    "_backward_div_scalar": lambda d, s: d / s,
    "_rdiv_scalar": lambda x, s: s / x,
    "_mod_scalar": mod,
    "_rmod_scalar": lambda x, s: mod(s, x),
    "_power_scalar": power,
    "_rpower_scalar": lambda x, s: power(s, x),
    "_maximum_scalar": maximum,
    "_minimum_scalar": minimum,
    "_hypot_scalar": hypot,
    "_equal_scalar": lambda x, s: x == s,
    "_not_equal_scalar": lambda x, s: x != s,
    "_greater_scalar": lambda x, s: x > s,
    "_greater_equal_scalar": lambda x, s: x >= s,
    "_lesser_scalar": lambda x, s: x < s,
    "_lesser_equal_scalar": lambda x, s: x <= s,
    "_logical_and_scalar": logical_and,
    "_logical_or_scalar": logical_or,
    "_logical_xor_scalar": logical_xor,
}

# The gradient of f(x, s) by x, from x; for _rpower_scalar from the output.
DERIVATIVES = {
    "_rdiv_scalar": lambda x, s: -s / (x * x),
    "_mod_scalar": lambda x, s: where(x == x, 1.0, 0.0),
    "_rmod_scalar": lambda x, s: -floor(s / x),
    "_power_scalar": lambda x, s: s * power(x, s - 1),
    "_rpower_scalar": lambda y, s: y * math.log(s) if s > 0 else y * log(s),
    "_maximum_scalar": lambda x, s: where(x >= s, 1.0, 0.0),
    "_minimum_scalar": lambda x, s: where(x <= s, 1.0, 0.0),
    "_hypot_scalar": lambda x, s: x / hypot(x, s),
}


def _describe(function):
    def description(data, *, scalar=1.0):
        return lambda *i: function(data[i], scalar)

    return description


def _describe_gradient(derivative):
    def description(d_out, x, *, scalar=1.0):
        return lambda *i: d_out[i] * derivative(x[i], scalar)

    return description


for _name, _function in FUNCTIONS.items():
    op(_name)(_describe(_function))
for _name, _derivative in DERIVATIVES.items():
    op(f"_backward{_name}")(_describe_gradient(_derivative))
