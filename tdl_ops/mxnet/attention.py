"""Attention scores and weighted sums, from interleaved queries, keys and values, and their gradients.

The first input has the shape (time, batch, numbers). A row of numbers has the query, the key and the value of head 0,
then the same for head 1, and so on. Each has `d` numbers. MXNet's scores have the shape (batch x heads, time, time of
the keys). They can only be split by batch. Tofu's operators (`tofu/mxnet/lowerings/attention_heads.py`) use (batch,
heads, time, time of the keys), which can also be split by heads.
"""

from tdl_ops.mxnet import op
from tofu.tdl import Sum, extent, merge, output, position, sqrt, unread, where


class Projection:
    """Queries, keys or values in an interleaved tensor, as a function of (time, batch, head, d).

    With `parts` = 3, `part` is 0 for queries, 1 for keys and 2 for values.
    """

    def __init__(self, tensor, part, parts):
        self.tensor, self.part, self.parts = tensor, part, parts

    def __call__(self, t, b, h, d):
        number = lambda part: self.tensor[t, b, (h * self.parts + part) * extent("d") + d]
        return number(self.part) + unread(number(0)) + unread(number(self.parts - 1))


def _gradient(heads, depth, time, *values):
    cell = lambda t, b, h, part, d: sum(where(position(part) == n, v(t, b, h, d), 0.0) for n, v in enumerate(values))
    part = f"part{len(values)}"
    return output(f"{time} b (h {part} d)", lambda *v: cell(*v), {"h": heads, part: len(values), "d": depth})


class Attention:
    """Scores, weighted sums and their gradients, for heads of `depth` numbers.

    If `merged` is True, batch and heads are one dimension of the scores.
    """

    def __init__(self, heads, depth, merged, projection=None):
        self.heads, self.depth = {"h": heads}, {"d": depth}
        self.scale = 1 / sqrt(position(extent("d")))
        self.own = lambda i, b, h, d: 0.0 if projection is None else unread(projection(i, b, h, d))
        self.pattern = "(b h) i j" if merged else "b h i j"
        self.at = lambda b, h, i, j: (merge(b, h), i, j) if merged else (b, h, i, j)

    def scores(self, queries, keys):
        product = lambda b, h, i, j: Sum(lambda d: queries(i, b, h, d) * keys(j, b, h, d), extents=self.depth)
        return output(self.pattern, lambda b, h, i, j: product(b, h, i, j) * self.scale, self.heads)

    def d_queries(self, d_scores, keys):
        return lambda i, b, h, d: Sum(lambda j: d_scores[self.at(b, h, i, j)] * keys(j, b, h, d)) * self.scale

    def d_keys(self, d_scores, queries):
        return lambda j, b, h, d: Sum(lambda i: d_scores[self.at(b, h, i, j)] * queries(i, b, h, d)) * self.scale

    def sums(self, weights, values):
        term = lambda i, b, h, d: lambda j: weights[self.at(b, h, i, j)] * values(j, b, h, d)
        total = lambda i, b, h, d: Sum(term(i, b, h, d)) + self.own(i, b, h, d)
        return output("i b (h d)", lambda i, b, h, d: total(i, b, h, d), self.heads | self.depth)

    def d_weights(self, d_out, values):
        term = lambda b, h, i, j, d: d_out[i, b, merge(h, d)] * values(j, b, h, d) + self.own(i, b, h, d)
        product = lambda b, h, i, j: Sum(lambda d: term(b, h, i, j, d), extents=self.depth)
        return output(self.pattern, lambda b, h, i, j: product(b, h, i, j), self.heads)

    def d_values(self, d_out, weights):
        return lambda j, b, h, d: Sum(lambda i: weights[self.at(b, h, i, j)] * d_out[i, b, merge(h, d)])


def _zero(t, b, h, d):
    return 0.0


def _start_self_attention(projection, heads, merged):
    depth = projection.shape[2] // (3 * extent("h"))
    queries, keys, values = (Projection(projection, part, 3) for part in range(3))
    return depth, Attention(heads, depth, merged, queries), queries, keys, values


def _start_attention(keys_values, heads, merged):
    depth = keys_values.shape[2] // (2 * extent("h"))
    return depth, Attention(heads, depth, merged), Projection(keys_values, 0, 2), Projection(keys_values, 1, 2)


def _describe_self_attention(merged):

    def scores(queries_keys_values, *, heads):
        _, attention, queries, keys, _ = _start_self_attention(queries_keys_values, heads, merged)
        return attention.scores(queries, keys)

    def backward_scores(d_out, queries_keys_values, *, heads):
        depth, attention, queries, keys, _ = _start_self_attention(queries_keys_values, heads, merged)
        parts = attention.d_queries(d_out, keys), attention.d_keys(d_out, queries), _zero
        return _gradient(heads, depth, "t", *parts)

    def sums(queries_keys_values, weights, *, heads):
        _, attention, _, _, values = _start_self_attention(queries_keys_values, heads, merged)
        return attention.sums(weights, values)

    def backward_sums(d_out, queries_keys_values, weights, *, heads):
        depth, attention, queries, _, values = _start_self_attention(queries_keys_values, heads, merged)
        zero = lambda t, b, h, d: unread(queries(t, b, h, d))
        d_projection = _gradient(heads, depth, "t", zero, zero, attention.d_values(d_out, weights))
        return d_projection, attention.d_weights(d_out, values)

    return scores, backward_scores, sums, backward_sums


def _describe_attention(merged):
    def scores(queries, keys_values, *, heads):
        _, attention, keys, _ = _start_attention(keys_values, heads, merged)
        return attention.scores(Projection(queries, 0, 1), keys)

    def backward_scores(d_out, queries, keys_values, *, heads):
        depth, attention, keys, _ = _start_attention(keys_values, heads, merged)
        d_keys = attention.d_keys(d_out, Projection(queries, 0, 1))
        return (
            _gradient(heads, depth, "i", attention.d_queries(d_out, keys)),
            _gradient(heads, depth, "j", d_keys, _zero),
        )

    def sums(keys_values, weights, *, heads):
        _, attention, _, values = _start_attention(keys_values, heads, merged)
        return attention.sums(weights, values)

    def backward_sums(d_out, keys_values, weights, *, heads):
        depth, attention, _, values = _start_attention(keys_values, heads, merged)
        d_values = attention.d_values(d_out, weights)
        return _gradient(heads, depth, "j", _zero, d_values), attention.d_weights(d_out, values)

    return scores, backward_scores, sums, backward_sums


COMPUTED_BESIDE_THE_FIRST = ("selfatt_valatt", "encdec_qk")
"""The kernels of these gradients compute the second output only together with the first."""


def _register(kind, merged):
    stock = "_contrib_interleaved_matmul_{}", "_backward_interleaved_matmul_{}"
    names = stock if merged else ("_tofu_{}", "_tofu_{}_backward")
    describe = _describe_self_attention if kind == "selfatt" else _describe_attention
    tasks = [(task, name) for task in ("qk", "valatt") for name in names]
    for (task, name), function in zip(tasks, describe(merged), strict=True):
        needs = {1: (0,)} if "backward" in name and f"{kind}_{task}" in COMPUTED_BESIDE_THE_FIRST else {}
        op(name.format(f"{kind}_{task}"), bound={} if merged else {"heads": "h"}, needs=needs)(function)


for _kind in ("selfatt", "encdec"):
    _register(_kind, merged=True)
    _register(_kind, merged=False)
