"""softmax_cross_entropy, a loss summed over the batch, and its gradient."""

from tdl_ops.mxnet import op
from tofu.tdl import Sum, exp, log, maximum, position, trunc, unwritten, where

SMALLEST = 1e-8  # smallest argument that MXNet passes to the logarithm


@op("softmax_cross_entropy")
def softmax_cross_entropy(data, label):
    probability = lambda b, k: exp(data[b, k]) / Sum(lambda j: exp(data[b, j]))
    own = lambda b, k: where(position(k) == trunc(label[b]), log(maximum(probability(b, k), SMALLEST)), 0.0)
    return lambda one: -Sum(lambda b: Sum(lambda k: own(b, k)))


@op("_backward_softmax_cross_entropy")
def backward_softmax_cross_entropy(d_out, data, label):
    probability = lambda b, k: exp(data[b, k]) / Sum(lambda j: exp(data[b, j]))
    target = lambda b, k: where(position(k) == trunc(label[b]), 1.0, 0.0)
    return lambda b, k: d_out[0] * (probability(b, k) - target(b, k)), unwritten("b")
