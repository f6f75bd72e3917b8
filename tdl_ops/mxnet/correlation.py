"""Correlation of two feature maps, and its gradient: each output channel compares patches at one displacement.

There are `p` x `q` displacements, by rows and columns. The kernels save the padded maps, with channels last.
"""

from tdl_ops.mxnet import op
from tofu.tdl import Sum, absolute, merge, output, scatter, where


class Displacements:
    """Positions of a patch in the first map and in the displaced second map."""

    def __init__(self, kernel_size, max_displacement, stride1, stride2):
        self.radius = max_displacement // stride2
        self.size, self.margin, self.stride1, self.stride2 = kernel_size, max_displacement, stride1, stride2
        self.names = {"p": 2 * self.radius + 1, "q": 2 * self.radius + 1}
        self.window = {"v": kernel_size, "u": kernel_size}

    def first(self, y, v):
        return y * self.stride1 + v + self.margin

    def second(self, y, v, p):
        return self.first(y, v) + (p - self.radius) * self.stride2


def _padded(data, pad_size):
    return lambda b, y, x, c: data[b, c, y - pad_size, x - pad_size]


@op("Correlation")
def correlation(data1, data2, *, kernel_size=1, max_displacement=1, stride1=1, stride2=1, pad_size=0, is_multiply=True):
    at = Displacements(kernel_size, max_displacement, stride1, stride2)
    one, two = _padded(data1, pad_size), _padded(data2, pad_size)
    combine = lambda a, b: a * b if is_multiply else absolute(a - b)

    def value(b, p, q, y, x):
        cells = lambda c, v, u: (
            one(b, at.first(y, v), at.first(x, u), c),
            two(b, at.second(y, v, p), at.second(x, u, q), c),
        )
        total = Sum(lambda c, v, u: combine(*cells(c, v, u)), extents=at.window)
        return total / (kernel_size * kernel_size * data1.shape[1])

    return (
        output("b (p q) y x", lambda b, p, q, y, x: value(b, p, q, y, x), at.names),
        output("b m n c", lambda b, m, n, c: one(b, m, n, c)),
        output("b m n c", lambda b, m, n, c: two(b, m, n, c)),
    )


@op("_backward_Correlation")
def backward_correlation(
    d_out, map1, map2, *, kernel_size=1, max_displacement=1, stride1=1, stride2=1, pad_size=0, is_multiply=True
):
    at = Displacements(kernel_size, max_displacement, stride1, stride2)

    def gradient(which, b, p, q, y, x, v, u, c):
        places = (at.first(y, v), at.first(x, u)), (at.second(y, v, p), at.second(x, u, q))
        one, two = map1[(b, *places[0], c)], map2[(b, *places[1], c)]
        slope = (two, one)[which] if is_multiply else where(one >= two, 1.0, -1.0) * (1, -1)[which]
        cell = (b, c, *(place - pad_size for place in places[which]))
        return cell, d_out[b, merge(p, q), y, x] * slope / (kernel_size * kernel_size * map1.shape[3])

    names = "b p q y x v u c"
    d_data = lambda which: scatter(lambda *i: gradient(which, *i), at.names | at.window, names=names)
    return d_data(0), d_data(1)
