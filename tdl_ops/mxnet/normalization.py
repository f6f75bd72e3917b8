"""BatchNorm and LayerNorm and their gradients, and BatchNorm_v1, which MXNet keeps for old models.

BatchNorm can be split by channel, and with use_global_stats also by batch and space. For other splits, the operators of
`batch_norm_parts.py` replace it. LayerNorm can be split by all dimensions except the one that it normalizes. For its
gradient, BatchNorm saves 1 / std, BatchNorm_v1 the variance, and LayerNorm std.
"""

from math import prod

from tdl_ops.mxnet import op
from tofu.tdl import Sum, output, sqrt, unread

EPS = 0.0010000000474974513  # MXNet's default for BatchNorm


class Channels:
    """Sums over each channel: over all dimensions (b, y0, y1, ...) except `axis`."""

    def __init__(self, data, axis):
        self.data, self.axis, self.others = data, axis % data.ndim, data.ndim - 1
        self.count = prod(extent for d, extent in enumerate(data.shape) if d != self.axis)
        others = ["b", *(f"y{d}" for d in range(self.others - 1))][: self.others]
        self.names = " ".join(self.cell("c", others))
        self.other_names = " ".join(others)

    def cell(self, c, others):
        return (*others[: self.axis], c, *others[self.axis :])

    def sum(self, value, c, name="r"):
        # Without a `name`, the sum runs over the data's index variables, so that they can be split.
        names = " ".join(f"{name}{d}" for d in range(self.others)) if name else self.other_names
        return Sum(lambda *r: value(self.cell(c, r)), names=names)

    def mean(self, c):
        return self.sum(lambda i: self.data[i], c) / self.count

    def variance(self, c):
        deviation = lambda q: self.data[self.cell(c, q)] - self.mean(c)
        return Sum(lambda *q: deviation(q) * deviation(q), ndim=self.others) / self.count


def _normalize_channels(data, gamma, beta, moving_mean, moving_var, eps, fix_gamma, use_global_stats, axis):
    """Return the normalized data, the means and the variances."""
    channels = Channels(data, axis)
    mean = (lambda c: moving_mean[c]) if use_global_stats else channels.mean
    variance = (lambda c: moving_var[c]) if use_global_stats else channels.variance
    inverse_std = lambda c: 1 / sqrt(variance(c) + eps)
    scale = lambda c: inverse_std(c) + unread(gamma[c]) if fix_gamma else inverse_std(c) * gamma[c]
    states = lambda c: 0 * moving_mean[c] + 0 * moving_var[c]  # read in inference
    value = lambda i, c: (data[i] - mean(c)) * scale(c) + beta[c] + states(c)
    return output(channels.names, lambda *i: value(i, i[axis])), lambda c: mean(c), lambda c: variance(c)


def _channel_gradients(channels, d_out, gamma, mean, inverse_std, states, fix_gamma, use_global_stats, sums):
    """Return the gradients by data, gamma and beta. `sums` names the variables of sums, as in `Channels.sum`."""
    data = channels.data
    normal = lambda i, c: (data[i] - mean(c)) * inverse_std(c)
    by_beta = lambda c, name=sums: channels.sum(lambda i: d_out[i], c, name)
    by_gamma = lambda c, name=sums: channels.sum(lambda i: d_out[i] * normal(i, c), c, name)

    def d_data(i, c):
        scale = inverse_std(c) + unread(gamma[c]) if fix_gamma else inverse_std(c) * gamma[c]
        if use_global_stats:
            return (d_out[i] + unread(data[i])) * scale + states(c)
        return (d_out[i] - (by_beta(c, "r") + normal(i, c) * by_gamma(c, "r")) / channels.count) * scale + states(c)

    return (
        output(channels.names, lambda *i: d_data(i, i[channels.axis])),
        lambda c: unread(gamma[c]) if fix_gamma else by_gamma(c),
        lambda c: by_beta(c),
    )


@op("BatchNorm", needs={1: (0,), 2: (0,)})
def batch_norm(data, gamma, beta, moving_mean, moving_var, *, eps=EPS, fix_gamma=True, use_global_stats=False, axis=1):
    statistics = moving_mean, moving_var
    whole, mean, variance = _normalize_channels(data, gamma, beta, *statistics, eps, fix_gamma, use_global_stats, axis)
    return whole, mean, lambda c: 1 / sqrt(variance(c) + eps)


@op("_backward_BatchNorm")
def backward_batch_norm(
    d_out,
    mean,
    inverse_std,
    data,
    gamma,
    beta,
    moving_mean,
    moving_var,
    *,
    fix_gamma=True,
    use_global_stats=False,
    axis=1,
):
    # The kernel updates the moving statistics.
    states = lambda c: 0 * moving_mean[c] + 0 * moving_var[c] + unread(beta[c]) + unread(mean[c])
    sums = "" if use_global_stats else "s"  # sums over a shard's elements, or over all elements
    saved = (lambda c: mean[c]), (lambda c: inverse_std[c])
    return _channel_gradients(Channels(data, axis), d_out, gamma, *saved, states, fix_gamma, use_global_stats, sums)


@op("BatchNorm_v1")
def batch_norm_v1(data, gamma, beta, moving_mean, moving_var, *, eps=EPS, fix_gamma=True, use_global_stats=False):
    return _normalize_channels(data, gamma, beta, moving_mean, moving_var, eps, fix_gamma, use_global_stats, axis=1)


@op("_backward_BatchNorm_v1")
def backward_batch_norm_v1(
    d_out, mean, variance, data, gamma, moving_mean, moving_var, *, eps=EPS, fix_gamma=True, use_global_stats=False
):
    states = lambda c: 0 * (moving_mean[c] + moving_var[c] + mean[c] + variance[c])
    own_mean, own_variance = (moving_mean, moving_var) if use_global_stats else (mean, variance)
    statistics = (lambda c: own_mean[c]), (lambda c: 1 / sqrt(own_variance[c] + eps))
    return _channel_gradients(Channels(data, 1), d_out, gamma, *statistics, states, fix_gamma, use_global_stats, "")


def last(tensor, axis):
    """Return the axis, the names of the tensor's dimensions, and the names after a sum over the axis.

    For 3 dimensions and axis=-1, these are (2, "i0 i1 k", "i0 i1 one").
    """
    axis %= tensor.ndim
    names = [f"i{d}" for d in range(tensor.ndim)]
    whole, reduced = [*names[:axis], "k", *names[axis + 1 :]], [*names[:axis], "one", *names[axis + 1 :]]
    return axis, " ".join(whole), " ".join(reduced)


@op("LayerNorm", needs={1: (0,), 2: (0,)})
def layer_norm(data, gamma, beta, *, axis=-1, eps=9.999999747378752e-06):
    axis, whole, reduced = last(data, axis)
    line = lambda i, j: data[(*i[:axis], j, *i[axis + 1 :])]
    mean = lambda i: Sum(lambda j: line(i, j)) / data.shape[axis]
    square = lambda i, j: (line(i, j) - mean(i)) * (line(i, j) - mean(i))
    std = lambda i: sqrt(Sum(lambda m: square(i, m)) / data.shape[axis] + eps)
    value = lambda i: (data[i] - mean(i)) / std(i) * gamma[i[axis]] + beta[i[axis]]
    return output(whole, lambda *i: value(i)), output(reduced, lambda *i: mean(i)), output(reduced, lambda *i: std(i))


@op("_backward_LayerNorm")
def backward_layer_norm(d_out, data, gamma, mean, std, *, axis=-1):
    axis, whole, _ = last(data, axis)
    at = lambda t, i: t[(*i[:axis], 0, *i[axis + 1 :])]
    normal = lambda i: (data[i] - at(mean, i)) / at(std, i)
    scaled = lambda i: d_out[i] * gamma[i[axis]]
    line = lambda f, i: Sum(lambda j: f((*i[:axis], j, *i[axis + 1 :]))) / data.shape[axis]
    others = lambda f, k: Sum(lambda *i: f((*i[:axis], k, *i[axis:])), names=whole.replace("k", ""))

    def d_data(i):
        correction = line(scaled, i) + normal(i) * line(lambda cell: scaled(cell) * normal(cell), i)
        return (scaled(i) - correction) / at(std, i)

    return (
        output(whole, lambda *i: d_data(i)),
        lambda k: others(lambda i: d_out[i] * normal(i), k),
        lambda k: others(lambda i: d_out[i], k),
    )
