"""Operators that draw random numbers. Split, every part draws its own: of the same distribution, but not the numbers of one device.

Those that would draw once for all parts (_shuffle's permutation, _sample_unique_zipfian) are not described.
"""

from __future__ import annotations

from tdl_ops.constant import SHAPE
from tofu.tdl import Any, Random, Sum, op, position, unread, where

DISTRIBUTIONS = (
    "uniform",
    "normal",
    "gamma",
    "exponential",
    "poisson",
    "negative_binomial",
    "generalized_negative_binomial",
)


@op(*(f"_random_{name}" for name in (*DISTRIBUTIONS, "randint")), bound=SHAPE)
def draw(*, shape=()):
    return lambda *i: Random()()


@op(*(f"_random_{name}_like" for name in DISTRIBUTIONS))
def draw_like(data):
    return lambda *i: Random()() + unread(data[i])


def _local_draws(local):
    """How many numbers a worker draws for each cell of the parameters: the last dimensions of the output."""
    return local.outputs[0].shape[len(local.inputs[0].shape) :]


@op(*(f"_sample_{name}" for name in DISTRIBUTIONS), bound={"shape": _local_draws})
def sample(*parameters, shape=()):
    return lambda *i: Random()(*(parameter[i[: parameter.ndim]] for parameter in parameters))


@op("_sample_multinomial", bound={"shape": lambda local: local.outputs[0].shape[len(local.inputs[0].shape) - 1 :]})
def sample_multinomial(probabilities, *, output_shapes, shape=(), get_prob=False):
    batch = probabilities.ndim - 1
    return tuple(lambda *i: Random()(probabilities[(*i[:batch], Any)]) for _ in output_shapes)


@op("_backward_sample_multinomial")
def backward_sample_multinomial(d_logarithm, probabilities, drawn):
    def value(i):
        names = " ".join(f"s{d}" for d in range(drawn.ndim - len(i) + 1))
        own = lambda cell: where(drawn[cell] == position(i[-1]), d_logarithm[cell] / probabilities[i], 0.0)
        return Sum(lambda *s: own((*i[:-1], *s)), names=names)

    return lambda *i: value(i)


@op(
    *(f"_npi_{name}" for name in ("uniform", "normal", "bernoulli", "exponential", "gamma")),
    bound={"size": lambda local: local.outputs[0].shape},
)
def draw_numpy(*parameters, output_shapes, size=None):
    return tuple(lambda *i: Random()(*(p.broadcast(*i) for p in parameters)) for _ in output_shapes)
