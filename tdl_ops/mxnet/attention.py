"""Attention over interleaved projections, and its gradients: scores and weighted sums, for self-attention and between two sequences.

A projection is (time, batch, numbers), its numbers being those of `h` heads, in each head some of queries, keys and values, in this
order, and `d` numbers of each. Scores are (batch by heads, time, time of the keys). Split by batch.
"""

from __future__ import annotations

from tdl_ops.mxnet import op
from tofu.tdl import Any, Sum, extent, merge, output, position, sqrt, unread, where


class Projection:
    """The numbers of one of the `parts` of a projection: projection(time, batch, head, d)."""

    def __init__(self, tensor, part, parts):
        self.tensor, self.part, self.parts = tensor, part, parts

    def __call__(self, t, b, h, d):
        """One number."""
        return self.tensor[t, b, (h * self.parts + self.part) * extent("d") + d]


def _gradient(heads, depth, time, *values):
    """The gradient of a projection from those of its parts, values(time, batch, head, d); `time` names its first dimension."""
    cell = lambda t, b, h, part, d: sum(where(position(part) == n, v(t, b, h, d), 0.0) for n, v in enumerate(values))
    part = f"part{len(values)}"
    return output(f"{time} b (h {part} d)", lambda *v: cell(*v), {"h": heads, part: len(values), "d": depth})


class Attention:
    """Scores, weighted sums and their gradients, for heads of `depth` numbers.

    The kernels for self-attention take the number of all times from `projection`, which is then read at every one.
    """

    def __init__(self, heads, depth, projection=None):
        self.heads, self.depth = heads, {"d": depth}
        self.scale = 1 / sqrt(position(extent("d")))
        self.own = lambda i, b: 0.0 if projection is None else unread(projection[i, b, Any])

    def scores(self, queries, keys):
        """(batch by heads, i, j): the scaled products of queries at i and keys at j."""
        product = lambda b, h, i, j: Sum(lambda d: queries(i, b, h, d) * keys(j, b, h, d), extents=self.depth)
        return output("(b h) i j", lambda b, h, i, j: product(b, h, i, j) * self.scale, {"h": self.heads})

    def d_queries(self, d_scores, keys):
        """The gradient of the queries at i."""
        return lambda i, b, h, d: Sum(lambda j: d_scores[merge(b, h), i, j] * keys(j, b, h, d)) * self.scale

    def d_keys(self, d_scores, queries):
        """The gradient of the keys at j."""
        return lambda j, b, h, d: Sum(lambda i: d_scores[merge(b, h), i, j] * queries(i, b, h, d)) * self.scale

    def sums(self, attention, values):
        """(i, batch, heads by d): the values, weighted."""
        total = lambda i, b, h, d: Sum(lambda j: attention[merge(b, h), i, j] * values(j, b, h, d)) + self.own(i, b)
        return output("i b (h d)", lambda i, b, h, d: total(i, b, h, d), {"h": self.heads} | self.depth)

    def d_attention(self, d_out, values):
        """The gradient of the weights."""
        terms = lambda b, h, i, j: lambda d: d_out[i, b, merge(h, d)] * values(j, b, h, d)
        product = lambda b, h, i, j: Sum(terms(b, h, i, j), extents=self.depth) + self.own(i, b)
        return output("(b h) i j", lambda b, h, i, j: product(b, h, i, j), {"h": self.heads})

    def d_values(self, d_out, attention):
        """The gradient of the values at j."""
        return lambda j, b, h, d: Sum(lambda i: attention[merge(b, h), i, j] * d_out[i, b, merge(h, d)])


def _self_attention(projection, heads):
    depth = projection.shape[2] // (3 * heads)
    return depth, Attention(heads, depth, projection), *(Projection(projection, part, 3) for part in range(3))


@op("_contrib_interleaved_matmul_selfatt_qk")
def selfatt_qk(queries_keys_values, *, heads):
    _, attention, queries, keys, _ = _self_attention(queries_keys_values, heads)
    return attention.scores(queries, keys)


@op("_backward_interleaved_matmul_selfatt_qk")
def backward_selfatt_qk(d_out, queries_keys_values, *, heads):
    depth, attention, queries, keys, _ = _self_attention(queries_keys_values, heads)
    parts = attention.d_queries(d_out, keys), attention.d_keys(d_out, queries), lambda t, b, h, d: 0.0
    return _gradient(heads, depth, "t", *parts)


@op("_contrib_interleaved_matmul_selfatt_valatt")
def selfatt_valatt(queries_keys_values, weights, *, heads):
    _, attention, _, _, values = _self_attention(queries_keys_values, heads)
    return attention.sums(weights, values)


@op("_backward_interleaved_matmul_selfatt_valatt", needs={1: (0,)})
def backward_selfatt_valatt(d_out, queries_keys_values, weights, *, heads):
    depth, attention, _, _, values = _self_attention(queries_keys_values, heads)
    zero = lambda t, b, h, d: unread(queries_keys_values[t, b, Any])
    d_projection = _gradient(heads, depth, "t", zero, zero, attention.d_values(d_out, weights))
    return d_projection, attention.d_attention(d_out, values)


def _encoder_decoder(keys_values, heads):
    depth = keys_values.shape[2] // (2 * heads)
    return depth, Attention(heads, depth), Projection(keys_values, 0, 2), Projection(keys_values, 1, 2)


@op("_contrib_interleaved_matmul_encdec_qk")
def encdec_qk(queries, keys_values, *, heads):
    _, attention, keys, _ = _encoder_decoder(keys_values, heads)
    return attention.scores(Projection(queries, 0, 1), keys)


@op("_backward_interleaved_matmul_encdec_qk", needs={1: (0,)})
def backward_encdec_qk(d_out, queries, keys_values, *, heads):
    depth, attention, keys, _ = _encoder_decoder(keys_values, heads)
    d_keys = attention.d_keys(d_out, Projection(queries, 0, 1))
    return (
        _gradient(heads, depth, "i", attention.d_queries(d_out, keys)),
        _gradient(heads, depth, "j", d_keys, lambda t, b, h, d: 0.0),
    )


@op("_contrib_interleaved_matmul_encdec_valatt")
def encdec_valatt(keys_values, weights, *, heads):
    _, attention, _, values = _encoder_decoder(keys_values, heads)
    return attention.sums(weights, values)


@op("_backward_interleaved_matmul_encdec_valatt")
def backward_encdec_valatt(d_out, keys_values, weights, *, heads):
    depth, attention, _, values = _encoder_decoder(keys_values, heads)
    d_values = attention.d_values(d_out, weights)
    return _gradient(heads, depth, "j", lambda t, b, h, d: 0.0, d_values), attention.d_attention(d_out, values)
