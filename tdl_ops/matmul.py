"""Matrix products: FullyConnected, dot, batch_dot, and their gradients.

`h` and `n` name the columns of the result, `k` what is summed over. The gradient of batch_dot is made of batch_dots.
"""

from __future__ import annotations

from tofu.tdl import Sum, merge, op, output


@op("FullyConnected", bound={"num_hidden": "h"})
def fully_connected(data, weight, bias=None, *, num_hidden, flatten=True):
    plus_bias = lambda value, h: value if bias is None else value + bias[h]
    if flatten:
        inner = data.ndim - 1
        return lambda b, h: plus_bias(Sum(lambda *k: data[(b, *k)] * weight[h, merge(*k)], ndim=inner), h)
    return output("*b h", lambda h, *b: plus_bias(Sum(lambda k: data[(*b, k)] * weight[h, k]), h))


@op("_backward_FullyConnected", bound={"num_hidden": "h"})
def backward_fully_connected(d_out, data, weight, *, num_hidden, flatten=True, no_bias=False):
    if flatten:
        inner = " ".join(f"k{d}" for d in range(data.ndim - 1))
        d_data = output("b *k", lambda b, *k: Sum(lambda h: d_out[b, h] * weight[h, merge(*k)]))
        d_weight = output(f"h ({inner})", lambda h, *k: Sum(lambda b: d_out[b, h] * data[(b, *k)]))
        d_bias = output("h", lambda h: Sum(lambda b: d_out[b, h]))
    else:
        outer = data.ndim - 1
        d_data = output("*b k", lambda k, *b: Sum(lambda h: d_out[(*b, h)] * weight[h, k]))
        d_weight = output("h k", lambda h, k: Sum(lambda *b: d_out[(*b, h)] * data[(*b, k)], ndim=outer))
        d_bias = output("h", lambda h: Sum(lambda *b: d_out[(*b, h)], ndim=outer))
    return (d_data, d_weight) if no_bias else (d_data, d_weight, d_bias)


@op("dot")
def dot(lhs, rhs, *, transpose_a=False, transpose_b=False):
    left, right = _matrix(lhs, transpose_a), _matrix(rhs, transpose_b)
    return lambda m, n: Sum(lambda k: left(m, k) * right(k, n))


@op("_backward_dot")
def backward_dot(d_out, lhs, rhs, *, transpose_a=False, transpose_b=False):
    left, right = _matrix(lhs, transpose_a), _matrix(rhs, transpose_b)
    d_left = output("k m" if transpose_a else "m k", lambda m, k: Sum(lambda n: d_out[m, n] * right(k, n)))
    d_right = output("n k" if transpose_b else "k n", lambda k, n: Sum(lambda m: left(m, k) * d_out[m, n]))
    return d_left, d_right


@op("batch_dot")
def batch_dot(lhs, rhs, *, transpose_a=False, transpose_b=False):
    left, right = _matrix(lhs, transpose_a), _matrix(rhs, transpose_b)
    return output("*b m n", lambda m, n, *b: Sum(lambda k: left(*b, m, k) * right(*b, k, n)))


def _matrix(tensor, is_transposed):
    """The matrices in the last two dimensions, indexed as if none were stored transposed."""
    return lambda *i: tensor[(*i[:-2], i[-1], i[-2]) if is_transposed else i]
