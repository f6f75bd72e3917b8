"""Weight updates from dense gradients: the new weight is the output, states are changed in place. Rates and coefficients are scalars."""

from __future__ import annotations

from benchmarks.evaluation.tensorflow import describe
from tofu.tdl import absolute, maximum, power, sign, sqrt, square, unread, where

SHAPES = {"T": (4, 5), "s": ()}


def _average(before, now, decay):
    return decay * before + (1 - decay) * now


def _shrink(weight, rate, l1, l2):
    """The proximal step of a weight for penalties on its absolute value and on its square."""
    return sign(weight) * maximum(absolute(weight) - rate * l1, 0.0) / (1 + rate * l2)


def _adadelta(weight, squares, updates, lr, rho, epsilon, g):
    return weight - lr * sqrt(updates + epsilon) / sqrt(_average(squares, square(g), rho) + epsilon) * g


def _adagrad_dual_averaging(weight, gradients, squares, g, lr, l1, l2, step):
    total = gradients + g
    shrunk = sign(total) * maximum(absolute(total) - l1 * step, 0.0)
    return unread(weight) - lr * shrunk / (l2 * step * lr + sqrt(squares + square(g)))


def _adam(weight, mean, variance, power1, power2, lr, beta1, beta2, epsilon, g):
    rate = lr * sqrt(1 - power2) / (1 - power1)
    return weight - rate * _average(mean, g, beta1) / (sqrt(_average(variance, square(g), beta2)) + epsilon)


def _ftrl(weight, squares, linear, g, lr, l1, l2, lr_power):
    return _ftrl_with_shrinkage(weight, squares, linear, g, lr, l1, l2, 0.0, lr_power)


def _ftrl_with_shrinkage(weight, squares, linear, g, lr, l1, l2, shrinkage, lr_power):
    before, after = (power(one, -lr_power) for one in (squares, squares + square(g)))
    line = linear + g + 2 * shrinkage * weight - (after - before) / lr * weight
    return where(absolute(line) > l1, (sign(line) * l1 - line) / (after / lr + 2 * l2), 0.0)


def _rmsprop(weight, squares, momentum, lr, rho, decay, epsilon, g):
    return weight - (decay * momentum + lr * g / sqrt(_average(squares, square(g), rho) + epsilon))


def _centred_rmsprop(weight, means, squares, momentum, lr, rho, decay, epsilon, g):
    variance = _average(squares, square(g), rho) - square(_average(means, g, rho))
    return weight - (decay * momentum + lr * g / sqrt(variance + epsilon))


def _proximal_adagrad(weight, squares, lr, l1, l2, g):
    rate = lr / sqrt(squares + square(g))
    return _shrink(weight - rate * g, rate, l1, l2)


# The operands in TensorFlow's order, T for a tensor of the weight's shape and s for a scalar.
UPDATES = {
    "ApplyAdadelta": ("TTTsssT", _adadelta),
    "ApplyAdagrad": ("TTsT", lambda weight, squares, lr, g: weight - lr * g / sqrt(squares + square(g))),
    "ApplyAdagradDA": ("TTTTssss", _adagrad_dual_averaging),
    "ApplyAdam": ("TTTssssssT", _adam),
    "ApplyCenteredRMSProp": ("TTTTssssT", _centred_rmsprop),
    "ApplyFtrl": ("TTTTssss", _ftrl),
    "ApplyFtrlV2": ("TTTTsssss", _ftrl_with_shrinkage),
    "ApplyGradientDescent": ("TsT", lambda weight, lr, g: weight - lr * g),
    "ApplyMomentum": ("TTsTs", lambda weight, momentum, lr, g, decay: weight - lr * (decay * momentum + g)),
    "ApplyProximalAdagrad": ("TTsssT", _proximal_adagrad),
    "ApplyProximalGradientDescent": (
        "TsssT",
        lambda weight, lr, l1, l2, g: _shrink(weight - lr * g, lr, l1, l2),
    ),
    "ApplyRMSProp": ("TTTssssT", _rmsprop),
}


def _describe(order, function):
    def update(*operands):
        kinds = list(zip(operands, order, strict=True))
        return lambda *i: function(*(x[i] if kind == "T" else x[()] for x, kind in kinds))

    return update


for _name, (_order, _function) in UPDATES.items():
    describe(_name, inputs=[SHAPES[kind] for kind in _order], outputs=[SHAPES["T"]])(_describe(_order, _function))
