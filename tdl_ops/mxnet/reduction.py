"""Reductions over some dimensions, and their gradients.

MXNet's attribute `axis` lists the dimensions to reduce. If it is empty, all dimensions are reduced. If `exclude` is
True, `axis` lists the dimensions to keep. If `keepdims` is True, reduced dimensions stay, with extent 1.
"""

from math import prod

from tdl_ops.mxnet import op
from tdl_ops.mxnet.reduced import list_reduced
from tofu.errors import UnsupportedError
from tofu.tdl import Max, Min, Prod, Sum, absolute, isnan, position, sign, sqrt, unread, where


def _reduce(reducer, data, value, axis, keepdims, exclude):
    reduced = list_reduced(axis, exclude, data.ndim)
    kept = [d for d in range(data.ndim) if d not in reduced]
    if not reduced:
        return lambda *i: value(data[i])

    def cell(i, r):
        own = [i[d] for d in kept] if keepdims else i
        parts = dict(zip(kept, own, strict=False)) | dict(zip(reduced, r, strict=True))
        return data[tuple(parts[d] for d in range(data.ndim))]

    return lambda *i: reducer(lambda *r: value(cell(i, r)), ndim=len(reduced))


def _spread(tensor, i, axis, keepdims, exclude):
    reduced = list_reduced(axis, exclude, len(i))
    if keepdims:
        return tensor[tuple(0 if d in reduced else v for d, v in enumerate(i))]
    kept = tuple(v for d, v in enumerate(i) if d not in reduced)
    return tensor[kept or (0,) * tensor.ndim]  # NumPy operators reduce to rank 0, others to rank 1


def _check_type(dtype):
    if dtype not in (None, "None", "float16", "float32", "float64"):
        raise UnsupportedError(f"a reduction to dtype={dtype} is not described: partial ones are rounded one by one")


def _describe(reducer, value=lambda x: x):
    def description(data, *, axis=None, keepdims=False, exclude=False, dtype=None):
        _check_type(dtype)
        return _reduce(reducer, data, value, axis, keepdims, exclude)

    return description


def _describe_gradient(gradient):
    def description(d_out, data, out, *, axis=None, keepdims=False, exclude=False):
        at = lambda tensor, i: _spread(tensor, i, axis, keepdims, exclude)
        return lambda *i: gradient(at(d_out, i), data[i], at(out, i))

    return description


op("sum")(_describe(Sum))
op("prod")(_describe(Prod))
op("max")(_describe(Max))
op("min")(_describe(Min))
op("nansum")(_describe(Sum, lambda x: where(isnan(x), 0.0, x)))
op("nanprod")(_describe(Prod, lambda x: where(isnan(x), 1.0, x)))
op("_backward_max", "_backward_min")(_describe_gradient(lambda d, x, y: where(x == y, d, 0.0)))
op("_backward_prod")(_describe_gradient(lambda d, x, y: d * y / x))
op("_backward_nansum")(_describe_gradient(lambda d, x, y: where(isnan(x), 0.0, d) + 0 * y))
op("_backward_nanprod")(_describe_gradient(lambda d, x, y: where(isnan(x), 0.0, d * y / x)))


@op("_backward_sum")
def backward_sum(d_out, *, axis=None, keepdims=False, exclude=False):
    return lambda *i: _spread(d_out, i, axis, keepdims, exclude)


@op("mean")
def mean(data, *, axis=None, keepdims=False, exclude=False):
    count = prod(data.shape[d] for d in list_reduced(axis, exclude, data.ndim))
    total = _reduce(Sum, data, lambda x: x, axis, keepdims, exclude)
    return lambda *i: total(*i) / count


@op("_backward_mean")
def backward_mean(d_out, *, axis=None, keepdims=False, exclude=False):
    count = lambda i: prod(position(i[d].extent) for d in list_reduced(axis, exclude, len(i)))
    return lambda *i: _spread(d_out, i, axis, keepdims, exclude) / count(i)


@op("norm")
def norm(data, *, ord=2, axis=None, keepdims=False):
    if ord == 1:
        return _reduce(Sum, data, absolute, axis, keepdims, False)
    squares = _reduce(Sum, data, lambda x: x * x, axis, keepdims, False)
    return lambda *i: sqrt(squares(*i))


@op("_backward_norm")
def backward_norm(d_out, data, out, *, ord=2, axis=None, keepdims=False):
    at = lambda tensor, i: _spread(tensor, i, axis, keepdims, False)
    return lambda *i: at(d_out, i) * (sign(data[i]) + 0 * at(out, i) if ord == 1 else data[i] / at(out, i))


@op("moments", needs={1: (0,)})
def moments(data, *, axes=None, keepdims=False):
    count = prod(data.shape[d] for d in list_reduced(axes, False, data.ndim))
    totals = [_reduce(Sum, data, value, axes, keepdims, False) for value in (lambda x: x, lambda x: x * x)]
    average = lambda n, i: totals[n](*i) / count
    return lambda *i: average(0, i), lambda *i: average(1, i) - average(0, i) * average(0, i)


@op("_backward_moments")
def backward_moments(d_mean, d_variance, data, mean, variance, *, axes=None, keepdims=False):
    at = lambda tensor, i: _spread(tensor, i, axes, keepdims, False)
    count = lambda i: prod(position(i[d].extent) for d in list_reduced(axes, False, len(i)))
    slope = lambda i: at(d_mean, i) + 2 * at(d_variance, i) * (data[i] - at(mean, i))
    return lambda *i: slope(i) / count(i) + unread(at(variance, i))


def _describe_variance(root):
    def description(a, *, axis=None, keepdims=False, ddof=0, dtype=None):
        _check_type(dtype)
        count = prod(a.shape[d] for d in list_reduced(axis, False, a.ndim))
        totals = [_reduce(Sum, a, value, axis, keepdims, False) for value in (lambda x: x, lambda x: x * x)]
        variance = lambda i: (totals[1](*i) - totals[0](*i) * totals[0](*i) / count) / (count - ddof)
        return lambda *i: root(variance(i)), lambda *i: totals[0](*i) / count

    return description


op("_npi_var")(_describe_variance(lambda x: x))
op("_npi_std")(_describe_variance(sqrt))


@op("_np_all")
def every(data, *, axis=None, keepdims=False):
    return _reduce(Min, data, lambda x: where(x != 0, 1.0, 0.0), axis, keepdims, False)


@op("_np_any")
def some(data, *, axis=None, keepdims=False):
    return _reduce(Max, data, lambda x: where(x != 0, 1.0, 0.0), axis, keepdims, False)
