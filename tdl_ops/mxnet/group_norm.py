"""GroupNorm and LRN, which normalize over adjacent channels, and their gradients.

GroupNorm has a scale and a shift for each group `g`, and can be split by groups. It saves mean and std for the
gradient.
"""

from math import prod

from tdl_ops.mxnet import op
from tofu.tdl import Sum, extent, output, sqrt

GROUPS = {"num_groups": "g"}


class Groups:
    """Sums and means over the channels and positions of a group."""

    def __init__(self, data):
        self.space, self.count = data.ndim - 2, extent("c") * prod(data.shape[2:])

    def sum(self, value, names):
        positions = " ".join(f"{names[1]}{d}" for d in range(self.space))
        extents = {names[0]: extent("c")} if names[0] != "c" else {}
        return Sum(lambda *v: value(v[0], v[1:]), names=f"{names[0]} {positions}", extents=extents)

    def mean(self, value, names):
        return self.sum(value, names) / self.count


@op("GroupNorm", bound=GROUPS, needs={1: (0,), 2: (0,)})
def group_norm(data, gamma, beta, *, num_groups=1, eps=9.999999747378752e-06):
    groups = Groups(data)
    at = lambda b, g, c, s: data[(b, g * extent("c") + c, *s)]
    mean = lambda b, g: groups.mean(lambda d, r: at(b, g, d, r), "dr")
    std = lambda b, g: sqrt(groups.mean(lambda e, q: (at(b, g, e, q) - mean(b, g)) ** 2, "eq") + eps)
    value = lambda b, g, c, s: (at(b, g, c, s) - mean(b, g)) / std(b, g) * gamma[g] + beta[g]
    whole = output("b (g c) *s", lambda b, g, c, *s: value(b, g, c, s), {"g": num_groups})
    return whole, lambda b, g: mean(b, g), lambda b, g: std(b, g)


@op("_backward_GroupNorm", bound=GROUPS)
def backward_group_norm(d_out, data, gamma, mean, std, *, num_groups=1):
    groups = Groups(data)
    cell = lambda b, g, c, s: (b, g * extent("c") + c, *s)
    normal = lambda b, g, c, s: (data[cell(b, g, c, s)] - mean[b, g]) / std[b, g]
    slope = lambda b, g, c, s: d_out[cell(b, g, c, s)] * normal(b, g, c, s)
    plain = lambda b, g: groups.mean(lambda d, r: d_out[cell(b, g, d, r)], "dr")
    projected = lambda b, g: groups.mean(lambda d, r: slope(b, g, d, r), "dr")
    correction = lambda b, g, c, s: plain(b, g) + normal(b, g, c, s) * projected(b, g)
    value = lambda b, g, c, s: (d_out[cell(b, g, c, s)] - correction(b, g, c, s)) * gamma[g] / std[b, g]
    total = lambda f, g: Sum(lambda b: groups.sum(lambda c, s: f(b, g, c, s), "cs"))
    return (
        output("b (g c) *s", lambda b, g, c, *s: value(b, g, c, s), {"g": num_groups}),
        output("g", lambda g: total(slope, g)),
        output("g", lambda g: total(lambda b, g, c, s: d_out[cell(b, g, c, s)], g)),
    )


def _window(b, c, s, value, nsize):
    return Sum(lambda k: value((b, c + k - nsize // 2, *s)), extents={"k": nsize})


@op("LRN")
def lrn(data, *, nsize, alpha=9.999999747378752e-05, beta=0.75, knorm=2.0):
    square = lambda cell: data[cell] * data[cell]
    norm = lambda b, c, s: knorm + alpha / nsize * _window(b, c, s, square, nsize)
    return lambda b, c, *s: data[(b, c, *s)] * norm(b, c, s) ** -beta, lambda b, c, *s: norm(b, c, s)


@op("_backward_LRN", fill={"norm": 1.0})
def backward_lrn(d_out, data, norm, *, nsize, alpha=9.999999747378752e-05, beta=0.75, knorm=2.0):
    slope = lambda cell: d_out[cell] * data[cell] * norm[cell] ** (-beta - 1)
    around = lambda b, c, s: 2 * alpha * beta / nsize * _window(b, c, s, slope, nsize)
    return lambda b, c, *s: d_out[(b, c, *s)] * norm[(b, c, *s)] ** -beta - data[(b, c, *s)] * around(b, c, s)
