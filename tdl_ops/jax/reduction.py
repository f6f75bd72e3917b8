"""Describe reductions, and JAX operations along one dimension: argmax, cumulative sums, sort."""

import numpy as np

from tdl_ops.jax import op
from tdl_ops.jax.operands import NUMBERS, cell, put_together
from tofu.errors import UnsupportedError
from tofu.tdl import Max, Min, Opaque, Prod, Sum, output

REDUCERS = {"reduce_sum": Sum, "reduce_max": Max, "reduce_min": Min, "reduce_prod": Prod}
LOGICAL = {"reduce_and": Min, "reduce_or": Max}
BITWISE = {"reduce_and": np.bitwise_and, "reduce_or": np.bitwise_or, "reduce_xor": np.bitwise_xor}


def _reduce(operand, axes, reducer):
    kept = [d for d in range(operand.ndim) if d not in axes]
    reduced = [d for d in range(operand.ndim) if d in axes]

    def value(v):
        at = lambda r: dict(zip(kept, v, strict=True)) | dict(zip(reduced, r, strict=True))
        element = lambda *r: operand[tuple(index for _, index in sorted(at(r).items()))]
        return reducer(element, names=" ".join(f"i{d}" for d in reduced)) if reduced else element()

    return output(" ".join(f"i{d}" for d in kept), lambda *v: value(v))


def _describe(reducer):
    return lambda operand, *, axes: _reduce(operand, axes, reducer)


def _reduce_opaquely(operands, axes, function, name, *numbers):
    rank = operands[0].ndim
    kept = [d for d in range(rank) if d not in axes]
    part = Opaque(function, name)

    def value(v):
        at = tuple(v[kept.index(d)] if d in kept else slice(None) for d in range(rank))
        return part(*(operand[at] for operand in operands), *(cell(number, ()) for number in numbers))[()]

    return output(" ".join(f"i{d}" for d in kept), lambda *v: value(v))


def _describe_bitwise(name):
    def description(operand, *, axes, input_types):
        if input_types == ("bool",) and name in LOGICAL:
            return _reduce(operand, axes, LOGICAL[name])
        reduce = lambda cells: BITWISE[name].reduce(cells.astype(np.int64), None)
        return _reduce_opaquely([operand], axes, reduce if "64" not in input_types[0] else None, name)

    return description


for _name, _reducer in REDUCERS.items():
    op(_name)(_describe(_reducer))
for _name in BITWISE:
    op(_name)(_describe_bitwise(_name))


@op("reduce")
def reduce(*x, dimensions, literals=()):
    operands = put_together(x, literals)  # the second half are initial numbers; the reducer is no attribute
    count = len(operands) // 2
    if any(isinstance(operand, NUMBERS) for operand in operands[:count]):
        raise UnsupportedError("a reduction of a number is not described")
    reduced = _reduce_opaquely(operands[:count], dimensions, None, "reduce", *operands[count:])
    return (reduced,) * count


def _line(operand, i, axis):
    return operand[(*i[:axis], slice(None), *i[axis + 1 :])]


def _describe_position(function):
    def description(operand, *, axes):
        (axis,) = axes
        find = Opaque(function, function.__name__)
        names = " ".join(f"i{d}" for d in range(operand.ndim) if d != axis)
        return output(names, lambda *i: find(_line(operand, (*i[:axis], None, *i[axis:]), axis))[()])

    return description


op("argmax")(_describe_position(np.argmax))
op("argmin")(_describe_position(np.argmin))

RUNNING = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "cumlogsumexp": np.logaddexp.accumulate,
}


def _describe_running(function):
    def description(operand, *, axis, reverse=False):
        line = Opaque((lambda cells: function(cells[::-1])[::-1]) if reverse else function, "running")
        return lambda *i: line(_line(operand, i, axis))[i[axis]]

    return description


for _name, _function in RUNNING.items():
    op(_name)(_describe_running(_function))


@op("sort")
def sort(*operands, dimension, num_keys=1):
    order = lambda lines: np.lexsort(lines[:num_keys][::-1])  # stable; the first key is the primary one

    def sorted_lines(n):
        line = Opaque(lambda *lines: lines[n][order(lines)], "sort")
        return lambda *i: line(*(_line(operand, i, dimension) for operand in operands))[i[dimension]]

    return tuple(sorted_lines(n) for n in range(len(operands)))


def _find_largest(operand, k, axis, sign):
    axis %= operand.ndim
    arrange = lambda cells: np.argsort(-sign * cells, kind="stable")[:k]
    values = Opaque(lambda cells: cells[arrange(cells)], "top_k")
    positions = Opaque(arrange, "top_k")
    names = " ".join("k" if d == axis else f"i{d}" for d in range(operand.ndim))
    return tuple(
        output(names, lambda *i, f=f: f(_line(operand, i, axis))[i[axis]], {"k": k}) for f in (values, positions)
    )


@op("top_k")
def top_k(operand, *, k, axis=-1):
    return _find_largest(operand, k, axis, 1)


@op("approx_top_k")
def approx_top_k(operand, *, k, reduction_dimension, is_max_k, aggregate_to_topk):
    if not aggregate_to_topk:
        raise UnsupportedError("approx_top_k with more than k candidates is not described: aggregate them")
    return _find_largest(operand, k, reduction_dimension, 1 if is_max_k else -1)
