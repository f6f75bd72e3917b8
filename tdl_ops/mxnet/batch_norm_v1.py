"""BatchNorm_v1, which MXNet keeps for old models. It can be split by channel."""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.normalization import Channels
from tofu.tdl import output, sqrt, unread


@op("BatchNorm_v1")
def batch_norm(
    data, gamma, beta, moving_mean, moving_var, *, eps=0.0010000000474974513, fix_gamma=True, use_global_stats=False
):
    channels = Channels(data, 1)
    mean = (lambda c: moving_mean[c]) if use_global_stats else channels.mean
    variance = (lambda c: moving_var[c]) if use_global_stats else channels.variance
    scale = lambda c: 1 + unread(gamma[c]) if fix_gamma else gamma[c]
    states = lambda c: 0 * moving_mean[c] + 0 * moving_var[c]  # read in inference
    value = lambda i, c: (data[i] - mean(c)) / sqrt(variance(c) + eps) * scale(c) + beta[c] + states(c)
    return output(channels.names, lambda *i: value(i, i[1])), lambda c: mean(c), lambda c: variance(c)


@op("_backward_BatchNorm_v1")
def backward_batch_norm(
    d_out,
    mean,
    variance,
    data,
    gamma,
    moving_mean,
    moving_var,
    *,
    eps=0.0010000000474974513,
    fix_gamma=True,
    use_global_stats=False,
):
    channels = Channels(data, 1)
    std = lambda c: sqrt((moving_var[c] if use_global_stats else variance[c]) + eps)
    normal = lambda i: (data[i] - (moving_mean[i[1]] if use_global_stats else mean[i[1]])) / std(i[1])
    by_beta = lambda c, name="": channels.sum(lambda i: d_out[i], c, name)
    by_gamma = lambda c, name="": channels.sum(lambda i: d_out[i] * normal(i), c, name)

    def d_data(i, c):
        scale = (1 + unread(gamma[c]) if fix_gamma else gamma[c]) / std(c)
        states = 0 * (moving_mean[c] + moving_var[c] + mean[c] + variance[c])
        if use_global_stats:
            return d_out[i] * scale + states + unread(data[i])
        return (d_out[i] - (by_beta(c, "r") + normal(i) * by_gamma(c, "r")) / channels.count) * scale + states

    return (
        output(channels.names, lambda *i: d_data(i, i[1])),
        lambda c: unread(gamma[c]) if fix_gamma else by_gamma(c),
        lambda c: by_beta(c),
    )
