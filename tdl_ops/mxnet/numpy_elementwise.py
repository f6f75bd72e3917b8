"""Element-wise operators that only MXNet's NumPy interface has.

Binary operators broadcast. Tests such as isnan return booleans. The gradients of `where` with one number are not
described, because they are wrong in MXNet 1.9.1.
"""

from math import log

import numpy as np

from tdl_ops.mxnet import op
from tdl_ops.mxnet.broadcast import add_up
from tofu.tdl import arctan2, elementwise, isfinite, isinf, isnan, power, unread, where

copysign = elementwise("signed", np.copysign)
LARGEST = float(np.finfo(np.float64).max)


def _on_integers(name, function):
    return elementwise(f"integer_{name}", lambda *numbers: function(*(np.asarray(n, np.int64) for n in numbers)))


INTEGER = {name: _on_integers(name, getattr(np, name)) for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm")}
BINARY = {"arctan2": arctan2, "copysign": copysign, "ldexp": lambda a, b: a * power(2.0, b)} | INTEGER
GRADIENTS = {
    "arctan2": (lambda a, b: b / (a * a + b * b), lambda a, b: -a / (a * a + b * b)),
    "copysign": (lambda a, b: copysign(1.0, a) * copysign(1.0, b), lambda a, b: 0 * a * b),
    "ldexp": (lambda a, b: power(2.0, b) + 0 * a, lambda a, b: a * power(2.0, b) * log(2)),
}
UNARY = {
    "isnan": isnan,
    "isinf": isinf,
    "isfinite": isfinite,
    "isposinf": lambda x: isinf(x) & (x > 0),
    "isneginf": lambda x: isinf(x) & (x < 0),
    "bitwise_not": lambda x: -1 - x,
}


def _describe(function):
    return lambda a, b: lambda *i: function(a.broadcast(*i), b.broadcast(*i))


def _describe_gradients(by_a, by_b):
    def description(d_out, a, b, *, output_shapes):
        value = lambda gradient: lambda *i: d_out[i] * gradient(a.broadcast(*i), b.broadcast(*i))
        return tuple(add_up(value(f), d_out.ndim, s) for f, s in zip((by_a, by_b), output_shapes, strict=True))

    return description


def _describe_unary(function):
    return lambda data: lambda *i: function(data[i])


def _describe_scalar(function):
    return lambda data, *, scalar=1.0: lambda *i: function(data[i], scalar)


def _describe_scalar_gradient(gradient):
    return lambda d_out, data, *, scalar=1.0: lambda *i: d_out[i] * gradient(data[i], scalar)


for _name, _function in BINARY.items():
    op(f"_npi_{_name}")(_describe(_function))
    op(f"_npi_{_name}_scalar")(_describe_scalar(_function))
    if _name not in INTEGER:
        op(f"_npi_r{_name}_scalar")(_describe_scalar(lambda x, s, f=_function: f(s, x)))
for _name, (_by_a, _by_b) in GRADIENTS.items():
    op(f"_backward_npi_{_name}", concrete=True)(_describe_gradients(_by_a, _by_b))
for _name in ("arctan2", "ldexp"):  # MXNet cannot derive copysign of numbers
    op(f"_backward_npi_{_name}_scalar")(_describe_scalar_gradient(GRADIENTS[_name][0]))
op("_backward_npi_rldexp_scalar")(_describe_scalar_gradient(lambda x, s: s * power(2.0, x) * log(2)))
# As in MXNet, with exchanged operands.
op("_backward_npi_rarctan2_scalar")(_describe_scalar_gradient(GRADIENTS["arctan2"][1]))
for _name, _function in UNARY.items():
    op(f"_npi_{_name}")(_describe_unary(_function))


@op("_npi_nan_to_num")
def nan_to_num(data, *, nan=0.0, posinf=None, neginf=None):
    above = LARGEST if posinf is None else posinf
    below = -LARGEST if neginf is None else neginf
    number = lambda x: where(isnan(x), nan, where(isfinite(x), x, where(x > 0, above, below)))
    return lambda *i: number(data[i])


@op("_npi_backward_nan_to_num")
def backward_nan_to_num(d_out, data):
    return lambda *i: where(isfinite(data[i]), d_out[i], 0.0)


@op("_npi_full_like")
def full_like(a, *, fill_value):
    return lambda *i: unread(a[i]) + fill_value


@op("_npi_where")
def choose(condition, x, y):
    return lambda *i: where(condition.broadcast(*i) != 0, x.broadcast(*i), y.broadcast(*i))


@op("_backward_np_where", concrete=True)
def backward_choose(d_out, condition, *, output_shapes):
    is_chosen = lambda i: condition.broadcast(*i) != 0
    by_x, by_y = lambda *i: where(is_chosen(i), d_out[i], 0.0), lambda *i: where(is_chosen(i), 0.0, d_out[i])
    return tuple(add_up(value, d_out.ndim, s) for value, s in zip((by_x, by_y), output_shapes, strict=True))


@op("_npi_where_lscalar")
def where_left(condition, x, *, scalar=0.0):
    return lambda *i: where(condition.broadcast(*i) != 0, scalar, x.broadcast(*i))


@op("_npi_where_rscalar")
def where_right(condition, x, *, scalar=0.0):
    return lambda *i: where(condition.broadcast(*i) != 0, x.broadcast(*i), scalar)


@op("_npi_where_scalar2")
def where_numbers(condition, *, x=0.0, y=0.0):
    return lambda *i: where(condition[i] != 0, x, y)
