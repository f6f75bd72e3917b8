"""Matrix products: FullyConnected, dot, batch_dot, and their gradients.

`h` and `n` are columns of the result, and the sum runs over `k`. MXNet computes the gradient of batch_dot by other
batch_dots.
"""

from tdl_ops.mxnet import op
from tdl_ops.patterns.contraction import contract, contract_backward
from tofu.tdl import Sum, merge, output


@op("FullyConnected", bound={"num_hidden": "h"})
def fully_connected(data, weight, bias=None, *, num_hidden, flatten=True):
    plus_bias = lambda value, h: value if bias is None else value + bias[h]
    if flatten:
        inner = " ".join(_number("k", data.ndim - 1))
        return lambda b, h: plus_bias(Sum(lambda *k: data[(b, *k)] * weight[h, merge(*k)], names=inner), h)
    return output("*b h", lambda h, *b: plus_bias(Sum(lambda k: data[(*b, k)] * weight[h, k]), h))


# oneDNN's kernel on CPUs writes the bias gradient only together with the weight gradient.
@op("_backward_FullyConnected", bound={"num_hidden": "h"}, needs={2: (1,)})
def backward_fully_connected(d_out, data, weight, *, num_hidden, flatten=True, no_bias=False):
    inner = data.ndim - 1
    if flatten:
        columns = " ".join(_number("k", inner)) or "one"  # a vector is a matrix of one column
        d_data = output("b *k", lambda b, *k: Sum(lambda h: d_out[b, h] * weight[h, merge(*k)]))
        d_weight = output(f"h ({columns})", lambda *v: Sum(lambda b: d_out[b, v[0]] * data[(b, *v[1:])[: data.ndim]]))
        d_bias = output("h", lambda h: Sum(lambda b: d_out[b, h]))
    else:
        rows = " ".join(_number("b", inner))
        d_data = output("*b k", lambda k, *b: Sum(lambda h: d_out[(*b, h)] * weight[h, k]))
        d_weight = output("h k", lambda h, k: Sum(lambda *b: d_out[(*b, h)] * data[(*b, k)], names=rows))
        d_bias = output("h", lambda h: Sum(lambda *b: d_out[(*b, h)], names=rows))
    return (d_data, d_weight) if no_bias else (d_data, d_weight, d_bias)


def _number(name, count):
    return [f"{name}{d}" for d in range(count)]


def _product(lhs, rhs, transpose_a, transpose_b):
    # (m, k) times (k, n) gives (m, n). With transpose_a, `lhs` is (k, m). Tensors of more dimensions have m0, m1, ...
    # in place of m.
    rows, columns = (
        [name] if tensor.ndim == 2 else _number(name, tensor.ndim - 1) for name, tensor in (("m", lhs), ("n", rhs))
    )
    left, right = ["k", *rows] if transpose_a else [*rows, "k"], [*columns, "k"] if transpose_b else ["k", *columns]
    return [(lhs, left), (rhs, right)], rows + columns or ["one"]


@op("dot")
def dot(lhs, rhs, *, transpose_a=False, transpose_b=False):
    return contract(*_product(lhs, rhs, transpose_a, transpose_b))


@op("_backward_dot")
def backward_dot(d_out, lhs, rhs, *, transpose_a=False, transpose_b=False):
    return contract_backward(d_out, *_product(lhs, rhs, transpose_a, transpose_b))


@op("batch_dot")
def batch_dot(lhs, rhs, *, transpose_a=False, transpose_b=False):
    left, right = _matrix(lhs, transpose_a), _matrix(rhs, transpose_b)
    return output("*b m n", lambda m, n, *b: Sum(lambda k: left(*b, m, k) * right(*b, k, n)))


def _matrix(tensor, is_transposed):
    return lambda *i: tensor[(*i[:-2], i[-1], i[-2]) if is_transposed else i]
