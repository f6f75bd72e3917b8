"""InstanceNorm and L2Normalization and their gradients. They save each sample's statistics for the gradient."""

from math import prod

from tdl_ops.mxnet import op
from tofu.tdl import Sum, output, sqrt


@op("InstanceNorm")
def instance_norm(data, gamma, beta, *, eps=0.0010000000474974513):
    count, rank = prod(data.shape[2:]), data.ndim - 2
    mean = lambda b, c: Sum(lambda *r: data[(b, c, *r)], ndim=rank) / count
    square = lambda b, c, q: (data[(b, c, *q)] - mean(b, c)) * (data[(b, c, *q)] - mean(b, c))
    variance = lambda b, c: Sum(lambda *q: square(b, c, q), ndim=rank) / count
    normal = lambda b, c, s: (data[(b, c, *s)] - mean(b, c)) / sqrt(variance(b, c) + eps)
    value = lambda b, c, *s: normal(b, c, s) * gamma[c] + beta[c]
    return value, lambda b, c: mean(b, c), lambda b, c: variance(b, c)


@op("_backward_InstanceNorm")
def backward_instance_norm(d_out, mean, variance, data, gamma, *, eps=0.0010000000474974513):
    count, rank = prod(data.shape[2:]), data.ndim - 2
    normal = lambda b, c, s: (data[(b, c, *s)] - mean[b, c]) / sqrt(variance[b, c] + eps)
    total = lambda b, c: Sum(lambda *r: d_out[(b, c, *r)], ndim=rank)
    projected = lambda b, c: Sum(lambda *r: d_out[(b, c, *r)] * normal(b, c, r), ndim=rank)
    correction = lambda b, c, s: (total(b, c) + normal(b, c, s) * projected(b, c)) / count
    scale = lambda b, c: gamma[c] / sqrt(variance[b, c] + eps)
    return (
        lambda b, c, *s: (d_out[(b, c, *s)] - correction(b, c, s)) * scale(b, c),
        lambda c: Sum(lambda b: projected(b, c)),
        lambda c: Sum(lambda b: total(b, c)),
    )


def _normed(mode, i):
    return {"instance": i[:1], "channel": (i[0], 0, *i[2:]), "spatial": i[:2]}[mode]


def _along(mode, i, r):
    return {"instance": (i[0], *r), "channel": (i[0], *r, *i[2:]), "spatial": (*i[:2], *r)}[mode]


def _count(mode, ndim):
    return {"instance": ndim - 1, "channel": 1, "spatial": ndim - 2}[mode]


@op("L2Normalization")
def l2_normalization(data, *, mode="instance", eps=1.000000013351432e-10):
    rank = _count(mode, data.ndim)
    square = lambda cell: data[cell] * data[cell]
    norm = lambda i: sqrt(Sum(lambda *r: square(_along(mode, i, r)), ndim=rank) + eps)
    saved = {
        "instance": lambda b: norm((b,)),
        "channel": output("b one *s", lambda b, one, *s: norm((b, one, *s))),
        "spatial": lambda b, c: norm((b, c)),
    }
    return lambda b, c, *s: data[(b, c, *s)] / norm((b, c, *s)), saved[mode]


@op("_backward_L2Normalization")
def backward_l2_normalization(d_out, out, norm, *, mode="instance"):
    rank = _count(mode, out.ndim)
    product = lambda cell: d_out[cell] * out[cell]
    projected = lambda i: Sum(lambda *r: product(_along(mode, i, r)), ndim=rank)
    value = lambda i: (d_out[i] - out[i] * projected(i)) / norm[_normed(mode, i)]
    return lambda b, c, *s: value((b, c, *s))
