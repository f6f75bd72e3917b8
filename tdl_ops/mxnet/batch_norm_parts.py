"""Operators that replace BatchNorm if it is split by batch or space.

Each worker sums its elements of each channel. The sums of all workers are added before the next operator reads them.
`count` is the number of elements in a channel, over all workers.
"""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.normalization import EPS, Channels
from tofu.tdl import Sum, output, sqrt, unread


class _Parts(Channels):
    def whole(self, value):
        return output(self.names, lambda *i: value(i, i[self.axis]))

    def total(self, value):
        return lambda c: Sum(lambda *r: value(self.cell(c, r), c), names=self.other_names)


@op("_tofu_batch_norm_sum")
def batch_norm_sum(data, *, axis=1):
    return _Parts(data, axis).total(lambda i, c: data[i])


@op("_tofu_batch_norm_squares")
def batch_norm_squares(data, sums, *, count, axis=1):
    deviation = lambda i, c: data[i] - sums[c] / count
    return _Parts(data, axis).total(lambda i, c: deviation(i, c) * deviation(i, c))


@op("_tofu_batch_norm_apply")
def batch_norm_apply(data, gamma, beta, sums, squares, *, count, eps=EPS, fix_gamma=True, axis=1):
    return _normalize(data, gamma, beta, lambda c: sums[c] / count, lambda c: squares[c] / count, eps, fix_gamma, axis)


@op("_tofu_batch_norm_global")
def batch_norm_global(data, gamma, beta, moving_mean, moving_var, *, eps=EPS, fix_gamma=True, axis=1):
    mean, variance = (lambda c: moving_mean[c]), (lambda c: moving_var[c])
    return _normalize(data, gamma, beta, mean, variance, eps, fix_gamma, axis)


def _normalize(data, gamma, beta, mean, variance, eps, fix_gamma, axis):
    inverse_std = lambda c: 1 / sqrt(variance(c) + eps)
    # The kernel sets a fixed gamma to 1 in place, so each worker needs its shard of gamma.
    scale = lambda c: inverse_std(c) * (1 + 0 * gamma[c] if fix_gamma else gamma[c])
    value = lambda i, c: (data[i] - mean(c)) * scale(c) + beta[c]
    return _Parts(data, axis).whole(value), lambda c: mean(c), lambda c: inverse_std(c)


@op("_tofu_batch_norm_backward_sums")
def batch_norm_backward_sums(d_out, data, mean, inverse_std, *, axis=1):
    parts = _Parts(data, axis)
    normal = lambda i, c: (data[i] - mean[c]) * inverse_std[c]
    return parts.total(lambda i, c: d_out[i]), parts.total(lambda i, c: d_out[i] * normal(i, c))


@op("_tofu_batch_norm_backward_apply")
def batch_norm_backward_apply(
    d_out, data, mean, inverse_std, gamma, moving_mean, moving_var, by_beta, by_gamma, *, count, fix_gamma=True, axis=1
):
    def d_data(i, c):
        normal = (data[i] - mean[c]) * inverse_std[c]
        scale = inverse_std[c] + unread(gamma[c]) if fix_gamma else inverse_std[c] * gamma[c]
        states = 0 * moving_mean[c] + 0 * moving_var[c]  # the kernel updates both in place
        return (d_out[i] - (by_beta[c] + normal * by_gamma[c]) / count) * scale + states

    d_gamma = lambda c: unread(gamma[c]) if fix_gamma else by_gamma[c]
    return _Parts(data, axis).whole(d_data), d_gamma, lambda c: by_beta[c]
