"""Element-wise operators of a tensor and a number, the attribute `scalar`, and their gradients.

In `_rdiv_scalar`, for example, the number is the first operand.
"""

import math

from tdl_ops.mxnet import op
from tdl_ops.mxnet.binary import FUNCTIONS, GRADIENTS
from tofu.tdl import log, where

NAMES = {"add": "plus", "sub": "minus"}


def _describe(function):
    return lambda data, *, scalar=1.0: lambda *i: function(data[i], scalar)


def _describe_gradient(gradient):
    return lambda d_out, x, *, scalar=1.0: lambda *i: gradient(d_out[i], x[i], scalar)


for _name, _function in FUNCTIONS.items():
    op(f"_{NAMES.get(_name, _name)}_scalar")(_describe(_function))
for _name in ("sub", "div", "mod", "power"):
    op(f"_r{NAMES.get(_name, _name)}_scalar")(_describe(lambda x, s, f=FUNCTIONS[_name]: f(s, x)))
for _name in ("mul", "div"):
    op(f"_backward_{_name}_scalar")(_describe(FUNCTIONS[_name]))
for _name in ("power", "maximum", "minimum", "hypot"):
    op(f"_backward_{_name}_scalar")(_describe_gradient(GRADIENTS[_name][0]))
for _name in ("div", "mod"):
    op(f"_backward_r{_name}_scalar")(_describe_gradient(lambda d, x, s, f=GRADIENTS[_name][1]: f(d, s, x)))
op("_backward_mod_scalar")(_describe_gradient(lambda d, x, s: where(x == x, d, 0.0)))


@op("_backward_rpower_scalar")
def backward_rpower(d_out, out, *, scalar=1.0):
    logarithm = math.log(scalar) if scalar > 0 else log(scalar)
    return lambda *i: d_out[i] * (out[i] * logarithm)
