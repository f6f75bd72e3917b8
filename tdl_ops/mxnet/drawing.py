"""Operators that draw random numbers. If they are split, workers draw different numbers of the same distribution.

_shuffle and _sample_unique_zipfian are not described, because all workers would need the same numbers.
"""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.broadcast import add_up
from tdl_ops.mxnet.constant import SHAPE
from tofu.tdl import Any, Random, Sum, position, unread, where

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


OF_PLACE_AND_SCALE = ("normal", "gumbel", "logistic")
OF_ONE_PARAMETER = ("exponential", "rayleigh", "weibull", "pareto")


@op(
    *(f"_npi_{name}" for name in ("uniform", "bernoulli", "gamma", "powerd", *OF_PLACE_AND_SCALE, *OF_ONE_PARAMETER)),
    bound={"size": lambda local: local.outputs[0].shape},
)
def draw_numpy(*parameters, output_shapes, size=None):
    return tuple(lambda *i: Random()(*(p.broadcast(*i) for p in parameters)) for _ in output_shapes)


def _local_batch(local):
    return local.outputs[0].shape[: len(local.outputs[0].shape) - max(len(array.shape) for array in local.inputs)]


@op("_npi_normal_n", "_npi_uniform_n", bound={"size": _local_batch})
def draw_batch(*parameters, output_shapes, size=None):
    return draw_numpy.function(*parameters, output_shapes=output_shapes)


def _add_up_slopes(d_out, given, output_shapes, slopes):
    # The kernel takes all tensors in `given`, although it does not read them.
    others = lambda i: sum(unread(array.broadcast(*i)) for array in given)
    value = lambda slope: lambda *i: slope(i) + others(i)
    return tuple(add_up(value(slope), d_out.ndim, shape) for slope, shape in zip(slopes, output_shapes, strict=True))


@op(*(f"_backward_broadcast_{name}" for name in OF_PLACE_AND_SCALE), concrete=True)
def backward_place_and_scale(d_out, d_noise, *rest, output_shapes, loc=None, scale=None):
    *given, noise = d_noise, *rest
    slopes = [lambda i: d_out[i] + unread(noise[i])] * (loc is None) + [lambda i: d_out[i] * noise[i]] * (scale is None)
    return _add_up_slopes(d_out, given, output_shapes, slopes)


@op(*(f"_backward_broadcast_{name}" for name in OF_ONE_PARAMETER), concrete=True)
def backward_one_parameter(d_out, d_noise, parameter, out, noise, *, output_shapes):
    return _add_up_slopes(d_out, (d_noise, parameter, out), output_shapes, [lambda i: d_out[i] * noise[i]])
